"""`--where`: rows of a batch for which an SQL condition holds, by DuckDB."""

from __future__ import annotations

import pyarrow as pa


class Filter:
    """Keeps the rows for which a condition holds. Raises ValueError for a condition that means nothing."""

    def __init__(self, condition: str, schema: pa.Schema) -> None:
        import duckdb

        self._error = duckdb.Error
        self._condition = condition
        self._duckdb = duckdb.connect(":memory:", config={"enable_external_access": "false"})
        self._duckdb.execute("SET TimeZone = 'UTC'")
        self(pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema))

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        numbered = pa.Table.from_batches([batch]).append_column("_row", pa.array(range(batch.num_rows), pa.int64()))
        try:
            rows = self._duckdb.from_arrow(numbered).filter(self._condition).project("_row").fetchnumpy()["_row"]
        except self._error as error:
            raise ValueError(" ".join(str(error).split())) from None
        rows.sort()
        return batch if len(rows) == batch.num_rows else batch.take(pa.array(rows, pa.int64()))
