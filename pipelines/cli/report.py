"""`brokerscope report`: the page again, from what `analyze` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pipelines.cli import common


@common.guarded
def report(
    out: Annotated[str, typer.Argument(metavar="OUT", help="The folder that `analyze` wrote.")],
    quiet: common.Quiet = False,
) -> None:
    """The HTML page again, from the tables in OUT."""
    from pipelines import report as pages

    page = pages.write(Path(out))
    if not quiet:
        print(page)
