"""What `analyze` left behind, read back."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.errors import InputError

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
TABLE_FOLDER = "tables"
ABOUT = "analysis.json"
CASES_FILE = "forensics.jsonl"  # one object a bad checksum, as `brokerscope forensics --format json` writes them
_ROWS = 200_000  # rows of a table that the page looks at


@dataclass
class Analysis:
    """The tables, as rows, and what is known about the run."""

    tables: dict[str, list[Row]]
    about: dict[str, Any] = field(default_factory=dict)
    rows: dict[str, int] = field(default_factory=dict)  # rows of each table, also those not loaded
    sums: dict[tuple[str, str], int] = field(default_factory=dict)  # (table, column) -> sum over all rows
    cases: list[Row] = field(default_factory=list)  # what forensics said of bad checksums

    def sum(self, table: str, column: str) -> int:
        """Sum of an integer column over all rows of a table."""
        return self.sums.get((table, column), 0)

    def __getitem__(self, table: str) -> list[Row]:
        return self.tables.get(table, [])


def load(out: Path) -> Analysis:
    """Read OUT. Raises InputError where there is nothing to read."""
    import pyarrow.parquet as pq

    found = sorted((out / TABLE_FOLDER).glob("*.parquet"))
    if not found:
        raise InputError(f"{out}: no tables here; `brokerscope analyze CAPTURE… -o {out}` makes them")
    analysis = Analysis({})
    for path in found:
        try:
            file = pq.ParquetFile(path)
            names = [name for name in file.schema_arrow.names if not name.endswith("_sketch")]
            batches = file.iter_batches(batch_size=_ROWS, columns=names)
            first = next(batches, None)
            analysis.tables[path.stem] = first.to_pylist() if first is not None else []
            analysis.rows[path.stem] = file.metadata.num_rows
            for batch in itertools.chain([first] if first is not None else [], batches):
                _add(analysis.sums, path.stem, batch)
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: cannot be read: {error}") from None
    about, cases = out / ABOUT, out / CASES_FILE
    try:
        if about.is_file():
            analysis.about = json.loads(about.read_text(encoding="utf-8"))
        if cases.is_file():
            analysis.cases = [json.loads(line) for line in cases.read_text(encoding="utf-8").splitlines()]
    except ValueError as error:
        raise InputError(f"{out}: cannot be read: {error}") from None
    return analysis


def _add(sums: dict[tuple[str, str], int], table: str, batch: pa.RecordBatch) -> None:
    """Add a batch's integer columns to the sums."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        if pa.types.is_integer(column.type):
            sums[table, name] = sums.get((table, name), 0) + (pc.sum(column).as_py() or 0)
