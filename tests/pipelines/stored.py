"""What `analyze` wrote: record tables, read by their folder, and the last commit of a lake."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import lake_files
from pipelines.storage.record_files import DATE


def read(folder: Path) -> pa.Table:
    """All rows of OUT/records/<table>, with the columns of the table."""
    return pa.concat_tables(pq.ParquetFile(path).read() for path in sorted(folder.glob("*"))).drop_columns([DATE])


def last_commit(lake: str | Path) -> lake_files.Commit:
    """The last commit of a lake that has one."""
    found = lake_files.last(str(lake))
    assert found is not None
    return found
