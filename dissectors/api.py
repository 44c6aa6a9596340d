"""Captures to Arrow tables in one call, or as a stream of record batches."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from dissectors import records
from dissectors.errors import UsageError
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES
from dissectors.run import Run


def dissect(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    tables: str | Sequence[str] = DEFAULT_TABLES,
    *,
    full: bool = False,
    payloads: bool = False,
    site: str = "folder",
    decode_as: Mapping[int, str] | None = None,
    keylog: str | None = None,
    dialects: Mapping[str, str] | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
) -> dict[str, pa.Table]:
    """Read captures whole: one Arrow table for each name in `tables`, in time order.

    paths: files, folders, globs or fsspec URLs. Raises InputError where nothing can be read; a file that is damaged is
    read as far as it goes, which a finding reports. jobs: processes that decode (dissectors.options.ALL_CORES: one for
    each core). For captures whose records do not fit in memory see iter_records.
    """
    options = Options(
        tables=(tables,) if isinstance(tables, str) else tuple(tables),
        full=full,
        payloads=payloads,
        site=site,
        decode_as=dict(decode_as or {}),
        keylog=keylog,
        dialects=dict(dialects or {}),
        jobs=jobs,
        limits=limits or Limits(),
    )
    unknown = set(options.tables) - set(records.TABLES)
    if unknown:
        raise UsageError(f"no such table: {', '.join(sorted(unknown))}; there are {', '.join(records.TABLES)}")
    gathered: dict[str, list[pa.RecordBatch]] = {table: [] for table in options.tables}
    for table, batch in iter_records(paths, options):
        gathered[table].append(batch)
    return {
        table: pa.Table.from_batches(batches, records.schema(table, full=full, payloads=payloads)).sort_by(
            [(column, "ascending") for column in records.ordered_by(table)]
        )
        for table, batches in gathered.items()
    }


def iter_records(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]], options: Options
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """(table, record batch) as they become complete, in bounded memory; within a batch in time order."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    yield from Run([os.fspath(p) for p in given], options).records()
