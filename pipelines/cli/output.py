"""Where a command writes: a file that appears whole or not at all, or stdout."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Annotated, BinaryIO

import typer

from pipelines.cli.options import option
from pipelines.formats import FORMATS, Format
from pipelines.storage import outputs

STDOUT = "-"
OutFile = Annotated[str | None, option("-o --output", "FILE", "Write here, not to stdout.")]
RowFormat = Annotated[
    Format | None,
    option("--format -f", "|".join(FORMATS), "Output format; by default that of the name of FILE, else text."),
]


@contextlib.contextmanager
def output(path: str | None, inputs: Sequence[str] = (), *, binary: bool = False) -> Iterator[BinaryIO]:
    """The file to write to, or stdout. Raises outputs.OutputIsInputError where that is one of `inputs`."""
    if path is not None and path != STDOUT:
        with outputs.file(path, inputs) as file:
            yield file
        return
    if sys.stdout is None:  # closed from the start
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123
            yield nowhere
        return
    if binary and sys.stdout.isatty():
        raise typer.BadParameter("this format is not for a terminal: name a file", param_hint="-o")
    yield sys.stdout.buffer
    sys.stdout.buffer.flush()
