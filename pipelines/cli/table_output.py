"""The rows of an answer that is a table: as a grid on a terminal, else in any format that rows are written in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pipelines.cli import printing
from pipelines.cli.output import STDOUT, output
from pipelines.cli.printing import PrintedField
from pipelines.formats import BINARY_FORMATS, named, writing

if TYPE_CHECKING:
    import pyarrow as pa


def is_printed(format: str | None, out: str | None) -> bool:
    """Whether the rows are for people, so that other sentences may stand beside them."""
    return (format or named(out)) == "text" and out in (None, STDOUT)


def write_table(
    rows: pa.Table,
    fields: Sequence[PrintedField],
    format: str | None,
    out: str | None,
    *,
    head: int | None = None,
    inputs: Sequence[str] = (),
) -> None:
    """Print the columns that people read, or write all. head: rows at most; inputs: files that must not be replaced."""
    some = rows if head is None else rows.slice(0, head)
    if is_printed(format, out):
        printing.show_rows(some.to_pylist(), fields)
        return
    chosen = format or named(out)
    with (
        output(out, inputs, binary=chosen in BINARY_FORMATS) as stream,
        writing(chosen, "", some.schema, stream) as writer,
    ):
        for batch in some.to_batches():
            writer.write(batch)
