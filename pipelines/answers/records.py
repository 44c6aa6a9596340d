"""The record tables that answers are computed from: decoded from captures, or read back from what `analyze` wrote."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from dissectors import records
from dissectors.errors import InputError
from pipelines.payloads import columns
from pipelines.sql import bodies, database
from pipelines.storage import capture_paths, filesystem, scratch
from pipelines.storage.layout import RECORD_FOLDER, TABLE_FOLDER
from pipelines.tables.points import several

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow.dataset import Dataset

    from dissectors.options import Options
    from pipelines.sql.selection import Selection
    from pipelines.storage.record_cache import CachedRows

Row = dict[str, Any]
Tables = dict[str, pa.Table]
Relations = Mapping[str, "pa.Table | Dataset"]  # what queries read
IN_MEMORY = 128 << 20
"""Bytes of records of captures that queries read from memory; more go to temporary files."""
SPILLING = "512MB"  # that counting once takes, beyond which temporary files


def gathered(
    batches: Iterable[tuple[str, pa.RecordBatch]],
    tables: Sequence[str],
    *,
    full: bool = False,
    payloads: bool = False,
) -> Tables:
    """Record batches as whole tables. full, payloads: whether the columns are there that these options add."""
    kept: dict[str, list[pa.RecordBatch]] = {table: [] for table in tables}
    for table, batch in batches:
        if table in kept:
            kept[table].append(batch)
    return {
        table: pa.Table.from_batches(made, columns.schema(table, full=full, payloads=payloads))
        for table, made in kept.items()
    }


@contextmanager
def queryable(
    batches: Iterable[tuple[str, pa.RecordBatch]],
    tables: Sequence[str],
    *,
    full: bool = False,
    payloads: bool = False,
) -> Iterator[Relations]:
    """Record batches as tables that queries read: in memory, or, where they are many, in temporary files.

    full, payloads: whether the columns are there that these options add.
    """
    schemas = {table: columns.schema(table, full=full, payloads=payloads) for table in tables}
    kept: dict[str, list[pa.RecordBatch]] = {table: [] for table in tables}
    size = 0
    with ExitStack() as stack:
        files: dict[str, _File] = {}
        for table, batch in batches:
            if table not in kept:
                continue
            if files:
                files[table].write([batch])
                continue
            kept[table].append(batch)
            size += batch.nbytes
            if size > IN_MEMORY:
                room = stack.enter_context(scratch.folder())
                files = {name: _File(room / f"{name}.parquet", schema) for name, schema in schemas.items()}
                for name, some in kept.items():
                    files[name].write(some)
                    some.clear()
        if files:
            yield {name: file.closed() for name, file in files.items()}
        else:
            yield {name: pa.Table.from_batches(some, schemas[name]) for name, some in kept.items()}


def selected(tables: Relations, part: Selection) -> Relations:
    """The rows that belong to a selection, of tables whose rows meet what a row alone tells."""
    if not part.names:
        return tables
    wanted = part.relations({name: name for name in tables})
    with database_of(tables) as connection:
        return {name: connection.sql(f"SELECT * FROM {rows}").to_arrow_table() for name, rows in wanted.items()}


@contextmanager
def part_of(
    rows: Iterable[tuple[str, pa.RecordBatch]], tables: Sequence[str], part: Selection
) -> Iterator[Iterable[tuple[str, pa.RecordBatch]]]:
    """Of record batches with the names of their tables, those of some tables with the rows of a selection."""
    if not part:
        yield rows
        return
    needed = part.tables(tables)
    with queryable(part.of(rows), needed) as every:
        chosen = selected(every, part)
        yield ((name, batch) for name, batch in batches(chosen) if name in tables)


def captures_of(out: str) -> tuple[list[str], list[str]]:
    """The captures that the records of an analysis name: those that are there, and those that are gone."""
    tables = read_analysis(out, ("connections", "findings"))
    named = " UNION ".join(f"SELECT file FROM {name} WHERE file IS NOT NULL" for name in tables)
    return capture_paths.captures(out, sorted(row["file"] for row in query(tables, named)))


class _File:
    """Records that are written to a temporary file, to be queried there."""

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        from pipelines.formats.parquet import ParquetWriter

        self._path, self._schema = path, schema
        self._stream = path.open("wb")
        self._writer = ParquetWriter(schema, self._stream)

    def write(self, batches: Iterable[pa.RecordBatch]) -> None:
        for batch in batches:
            self._writer.write(batch)

    def closed(self) -> Dataset:
        """All of them."""
        self._writer.close()
        self._stream.close()
        return _dataset([str(self._path)], self._schema)


def read_analysis(out: str, tables: Sequence[str]) -> Relations:
    """Record tables in OUT, of which a query reads what it needs: they may be larger than memory.

    A table that is not there is empty; columns that an earlier release did not write are null. Raises InputError where
    a table cannot be read.
    """
    from pipelines.storage.stored_records import StoredRecords

    stored = StoredRecords.of(str(Path(out, RECORD_FOLDER)))
    files = {table: [filesystem.join(stored.folder, file) for file in stored.files.get(table, ())] for table in tables}
    return {
        table: _dataset(some, records.schema(table)) if some else records.schema(table).empty_table()
        for table, some in files.items()
    }


def count(table: pa.Table | Dataset) -> int:
    """Rows of a table that queries read."""
    return int(table.num_rows if isinstance(table, pa.Table) else table.count_rows())


def empty(tables: Relations) -> frozenset[str]:
    """The tables that have no rows, of those in memory: queries of these need not be asked."""
    return frozenset(name for name, table in tables.items() if isinstance(table, pa.Table) and not table.num_rows)


class KeptRows:
    """Records that were decoded before, as a run gives those of captures.

    files: what they were read from; problems: kind of finding and message of captures that could not be read whole;
    cut: packets that a snap length had cut short.
    """

    def __init__(
        self, files: Sequence[str], tables: Relations, problems: Sequence[tuple[str, str]] = (), cut: int = 0
    ) -> None:
        self.files = files
        self.tables = tables
        self.problems = problems
        self.cut = cut

    @classmethod
    def of_analysis(cls, out: str, tables: Sequence[str]) -> KeptRows:
        """Those in a folder that `analyze` wrote."""
        return cls((out,), read_analysis(out, tables))

    @classmethod
    def of_cache(cls, files: Sequence[str], kept: CachedRows, options: Options) -> KeptRows:
        """Those that an earlier command kept."""
        tables = {
            table: _dataset([file], records.schema(table, full=options.full, payloads=options.payloads))
            for table, file in kept.files.items()
        }
        return cls(files, tables, kept.problems, kept.cut)

    def records(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """All rows, each batch with the name of its table."""
        return batches(self.tables)


def read_aggregates(out: str) -> Relations:
    """The aggregate tables in OUT, as of the run that made them."""
    return {path.stem: _dataset([str(path)]) for path in sorted(Path(out, TABLE_FOLDER).glob("*.parquet"))}


@contextmanager
def counted_once(tables: Relations) -> Iterator[tuple[Relations, Mapping[tuple[str, ...], int]]]:
    """These tables, in which what several capture points saw stands once; and Computed.shared.

    tables: of points.SAME; among them `connections`, and `exchanges`, which tell the point nearest to the server.
    """
    if _seen_once(tables["connections"]) or not query(tables, several("connections"))[0]["several"]:
        yield tables, {}
        return
    from pipelines.tables.compute import bound
    from pipelines.tables.compute import counted_once as counted
    from pipelines.tables.on_duckdb import LocalEngine

    with scratch.folder() as room, LocalEngine(str(room), {}, room, SPILLING) as engine:
        with readable():
            for name, rows in tables.items():
                engine.add(f"all_{name}", rows)
            known, shared = counted(engine)

        def once() -> Iterator[tuple[str, pa.RecordBatch]]:
            for name, rows in tables.items():
                with readable():
                    for batch in engine.stream(bound(engine.dialect, f"select * from {name}", known)):
                        yield name, batch.cast(rows.schema)

        if not shared:
            yield tables, {}
            return
        full = "request" in tables["exchanges"].schema.names
        with queryable(once(), tuple(tables), full=full) as found:
            yield found, shared


def _seen_once(connections: pa.Table | Dataset) -> bool:
    """Whether `points.several` is false for certain, which a look at rows in memory often tells without a database.

    There is one capture point, and no two connections of which both sequence numbers are known have these in common.
    """
    if not isinstance(connections, pa.Table):
        return False
    sites, *numbers = (connections[name].to_pylist() for name in ("site", "client_seq", "server_seq"))
    known = [pair for pair in zip(*numbers, strict=True) if None not in pair]
    return len(set(sites)) <= 1 and len(set(known)) == len(known)


def files_of(tables: Relations) -> list[str]:
    """The files whose rows queries of these tables read."""
    return [file for table in tables.values() if not isinstance(table, pa.Table) for file in table.files]


@contextmanager
def readable(files: Sequence[str] = ()) -> Iterator[None]:
    """Raises InputError where a query in the block fails because a table cannot be read. files: those that it reads."""
    import duckdb

    try:
        yield
    except duckdb.Error as error:
        if database.is_unreadable(error, files):
            raise database.unreadable(error) from None
        raise


def _dataset(files: Sequence[str], schema: pa.Schema | None = None) -> Dataset:
    """The rows of some local files, of which there is one at least."""
    import pyarrow.dataset as ds

    try:
        found = ds.dataset(files, schema, format="parquet")
        found.count_rows()  # by the ends of the files, so what is damaged there is known before a query
    except (OSError, ValueError) as error:
        raise InputError(f"{Path(files[0]).parent}: cannot be read: {error}") from None
    return found


def read(tables: Relations, table: str, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """Some columns of a table, batch by batch."""
    found = tables[table]
    if isinstance(found, pa.Table):
        yield from found.select(columns).to_batches()
    else:
        yield from found.to_batches(columns=list(columns))


def batches(tables: Relations) -> Iterator[tuple[str, pa.RecordBatch]]:
    """All rows of record tables, each batch with the name of its table."""
    for name in tables:
        for batch in read(tables, name, tables[name].schema.names):
            yield name, batch


def query(tables: Relations, sql: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows of a query over these tables. Raises InputError where a table cannot be read, else duckdb.Error."""
    with database_of(tables, only_ours=True) as connection:
        return database.fetched(connection, sql, parameters)


def body(text: str | None) -> Mapping[str, Any]:
    """The fields of a decoded body, a request or a response of a row; none where it was not decoded."""
    found = json.loads(text) if text else {}
    return found if isinstance(found, dict) else {}


@contextmanager
def database_of(
    tables: Relations, *, json_bodies: bool = False, only_ours: bool = False
) -> Iterator[DuckDBPyConnection]:
    """A database that holds these tables and nothing else.

    json_bodies: decoded bodies are JSON, so that a query names their fields: request.acks. only_ours: as `connect` has
    it.
    Raises InputError where a query in the block meets a table that cannot be read, else duckdb.Error.
    """
    from pipelines.tables.on_duckdb import give_name

    in_memory = [table.nbytes for table in tables.values() if isinstance(table, pa.Table)]
    size = sum(in_memory) if len(in_memory) == len(tables) else None
    stored = files_of(tables)
    with database.connect(size, stored, only_ours=only_ours) as connection, readable(stored):
        for name, table in tables.items():
            if json_bodies and bodies.has_bodies(table.schema):
                give_name(connection, f"{name}_as_text", table)
                connection.execute(f"CREATE VIEW {name} AS SELECT {bodies.AS_JSON} FROM {name}_as_text")
            else:
                give_name(connection, name, table)
        yield connection
