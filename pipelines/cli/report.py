"""`brokerscope report`: the page again, from what `analyze` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def report(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that `analyze` wrote.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the page's path.")] = False,
) -> None:
    """The HTML page again, from the tables in OUT.

    \b
    Example:
      brokerscope report out
    """
    from pipelines import report as pages

    page = pages.write(Path(out))
    if not quiet:
        print(page)
