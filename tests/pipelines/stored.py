"""Record tables that `analyze` wrote, read by their folder."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage.record_files import DATE


def read(folder: Path) -> pa.Table:
    """All rows of OUT/records/<table>, with the columns of the table."""
    return pa.concat_tables(pq.ParquetFile(path).read() for path in sorted(folder.glob("*"))).drop_columns([DATE])
