"""Captures to Arrow tables in one call, or as a stream of record batches."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypeAlias

import pyarrow as pa

from dissectors import records
from dissectors.errors import UsageError
from dissectors.given import CaptureInput, as_paths
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES
from dissectors.run import Run
from dissectors.session.protocols import named, protocols

TableName: TypeAlias = Literal[
    "exchanges", "batches", "errors", "connections", "findings", "messages", "positions", "stalls", "events"
]


def dissect(
    captures: CaptureInput | Sequence[CaptureInput],
    tables: TableName | Sequence[TableName] | Sequence[str] = DEFAULT_TABLES,
    *,
    full: bool = False,
    payloads: bool = False,
    site: str = "place",
    decode_as: Mapping[int, str] | None = None,
    keylog: str | None = None,
    dialects: Mapping[str, str] | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
) -> dict[str, pa.Table]:
    """Read captures whole: one Arrow table for each name in `tables`, in time order.

    captures: files, folders, globs or fsspec URLs; bytes; files that are open in binary mode. full: add the decoded
    bodies to `exchanges`. payloads: add key, value and headers to `messages`. site: what names a capture point:
    `place`, `folder`, `file` or a regular expression. decode_as: server port -> protocol. keylog: a file of TLS
    secrets. dialects: protocol -> dialect. jobs: processes that decode; 0 for one on each core.

    Raises UsageError for an argument that means nothing, InputError where nothing can be read; a file that is damaged
    is read as far as it goes, which a finding reports. For captures whose records do not fit in memory see
    iter_records.
    """
    options = options_of(tables, full, payloads, site, decode_as, keylog, dialects, jobs, limits)
    gathered: dict[str, list[pa.RecordBatch]] = {table: [] for table in options.tables}
    for table, batch in _batches(captures, options):
        gathered[table].append(batch)
    return {
        table: pa.Table.from_batches(batches, records.schema(table, full=full, payloads=payloads)).sort_by(
            [(column, "ascending") for column in records.ordered_by(table)]
        )
        for table, batches in gathered.items()
    }


def iter_records(
    captures: CaptureInput | Sequence[CaptureInput],
    tables: TableName | Sequence[TableName] | Sequence[str] = DEFAULT_TABLES,
    *,
    full: bool = False,
    payloads: bool = False,
    site: str = "place",
    decode_as: Mapping[int, str] | None = None,
    keylog: str | None = None,
    dialects: Mapping[str, str] | None = None,
    jobs: int = 1,
    limits: Limits | None = None,
) -> Iterator[tuple[str, pa.RecordBatch]]:
    """(table, record batch) as they become complete, in bounded memory; within a batch in time order.

    Takes the arguments of `dissect`, and raises its errors.
    """
    options = options_of(tables, full, payloads, site, decode_as, keylog, dialects, jobs, limits)
    return _batches(captures, options)


def _batches(captures: CaptureInput | Sequence[CaptureInput], options: Options) -> Iterator[tuple[str, pa.RecordBatch]]:
    with as_paths(captures) as paths:
        yield from Run(paths, options).records()


def options_of(
    tables: str | Sequence[str],
    full: bool,
    payloads: bool,
    site: str,
    decode_as: Mapping[int, str] | None,
    keylog: str | None,
    dialects: Mapping[str, str] | None,
    jobs: int,
    limits: Limits | None,
) -> Options:
    """Options of the arguments of `dissect`. Raises UsageError where one means nothing."""
    if isinstance(tables, Options):
        raise UsageError("iter_records takes the names of tables and keywords, as dissect does, in place of Options")
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
    unknown = sorted(set(options.tables) - set(records.TABLES))
    if unknown:
        raise UsageError(f"no such table: {', '.join(unknown)}; there are {', '.join(records.TABLES)}")
    for argument, names in (("decode_as", options.decode_as.values()), ("dialects", options.dialects)):
        if strange := [name for name in names if named(name) is None]:
            known = ", ".join(protocol.name for protocol in protocols())
            raise UsageError(f"{argument}: no protocol {strange[0]!r}; there are {known}")
    for protocol, dialect in options.dialects.items():
        if (one := named(protocol)) is not None and dialect not in one.dialects():
            raise UsageError(f"dialects: {protocol} has no {dialect!r}; there are {', '.join(one.dialects())}")
    try:
        re.compile(site)
    except re.error as error:
        raise UsageError(f"site: {site!r} is no regular expression: {error}") from None
    return options
