"""How options of commands are declared: the names of one, what it takes, what it says of itself in the help."""

from __future__ import annotations

from typing import Any

import typer


def option(names: str, takes: str | None, help: str, **more: Any) -> Any:
    """An option that takes a value. names: apart by spaces; takes: how the help shows the value."""
    return typer.Option(*names.split(), metavar=takes, help=help, **more)


def flag(names: str, help: str, **more: Any) -> Any:
    """An option that is given or not. names: apart by spaces."""
    return typer.Option(*names.split(), help=help, **more)
