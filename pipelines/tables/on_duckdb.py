"""The tables, and OUT/tables again, by DuckDB in this process."""

from __future__ import annotations

import glob
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from pipelines.sql.database import literal
from pipelines.storage import filesystem, scratch
from pipelines.tables.dialect import Dialect, DuckDB
from pipelines.tables.registry import TABLES
from pipelines.tables.table import Table, TableColumn

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyarrow.dataset import Dataset

    from pipelines.storage.stored_records import StoredRecords

MEMORY = "256MB"  # that reading the tables takes; what does not fit goes to temporary files
THREAD_MEMORY = "400MB"  # that a thread takes where the queries of all tables go to temporary files
ROWS_AT_ONCE = 50_000  # of a query's answer that is read along

_SETTINGS = {
    "TimeZone": "UTC",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "enable_progress_bar": "false",
    "parquet_metadata_cache": "true",  # files do not change while they are read, and many queries read the same ones
}

_THREADS = f"""
    select greatest(1, least(current_setting('threads'),
        parse_formatted_bytes(current_setting('memory_limit')) // parse_formatted_bytes('{THREAD_MEMORY}')))"""


class _Connection:
    """A database in memory, closed at the end of a `with` block."""

    def __init__(self, folder: str, room: Path, memory: str | None = None) -> None:
        """folder: what is read, a path or a URL that fsspec opens. room: for what does not fit in `memory`."""
        import duckdb

        self.duckdb: Any = duckdb.connect(":memory:")
        limit = {"memory_limit": memory} if memory else {}
        for name, value in {**_SETTINGS, **limit, "temp_directory": str(room)}.items():
            self.duckdb.execute(f"set {name} = {literal(value)}")
        if filesystem.local_path(folder) is None:
            self.duckdb.register_filesystem(filesystem.file_system(folder))

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.duckdb.close()

    def fetch(self, query: str) -> pa.Table:
        """The rows of a query."""
        return self.duckdb.sql(query).to_arrow_table()

    def stream(self, query: str) -> pa.RecordBatchReader:
        """The rows of a query, some at a time."""
        return self.duckdb.sql(query).to_arrow_reader(ROWS_AT_ONCE)


class LocalEngine(_Connection):
    """Runs the tables' queries over OUT/records. What does not fit in `memory` goes to files in `room`."""

    at_once = 1  # a query uses all cores
    plans_dearly = False

    def __init__(
        self, folder: str, sources: Mapping[str, Sequence[str]], room: Path, memory: str | None = None
    ) -> None:
        """folder: of the records, a path, or a URL that fsspec opens. sources: for each table, files or folders of it.

        memory: `512MB`, for example; a share of all by default.
        """
        from duckdb import OutOfMemoryException

        super().__init__(folder, room, memory)
        self.dialect: Dialect = DuckDB()
        self.too_little_memory: tuple[type[Exception], ...] = (OutOfMemoryException,)
        self.relations: Mapping[str, str] = {f"all_{name}": files(*some) for name, some in sources.items()}
        self.shared: dict[tuple[str, ...], int] | None = None

    def limit_threads(self) -> None:
        """Use no more threads than the memory limit is enough for."""
        ((threads,),) = self.duckdb.execute(_THREADS).fetchall()
        self.duckdb.execute(f"set threads = {threads}")

    def add(self, name: str, rows: pa.Table | Dataset) -> None:
        """Give rows in memory or in local files a name."""
        give_name(self.duckdb, f"given_{name}", rows)
        self.relations = {**self.relations, name: f"given_{name}"}

    def has_named(self, others: Mapping[str, str], shared: dict[tuple[str, ...], int]) -> None:
        """Say that the database has all record tables by name, each row counted once; others: what it has not."""
        self.relations, self.shared = others, shared

    def columns(self, relation: str) -> Sequence[str]:
        return list(_columns(self.duckdb, relation))

    def keep(self, name: str, query: str) -> str:
        self.duckdb.execute(f"create or replace table kept_{name} as {query}")
        return f"kept_{name}"

    def write(self, query: str, table: Table, path: Path) -> None:
        from pyarrow.parquet import ParquetWriter

        path.parent.mkdir(parents=True, exist_ok=True)
        rows = self.stream(f"{query} order by {table.ordering}")
        # COPY would write columns as NOT NULL where these rows have no null: the schema must not depend on them
        with ParquetWriter(path, rows.schema, compression="zstd") as writer:
            for batch in rows:
                writer.write_batch(batch)


@contextmanager
def engine_over(stored: StoredRecords, memory: str) -> Iterator[LocalEngine]:
    """An engine over all files of stored records, with as many threads as `memory` is enough for."""
    sources = {name: stored.sources(name) for name in stored.files}
    with scratch.folder() as room, LocalEngine(stored.folder, sources, room, memory) as engine:
        engine.limit_threads()
        yield engine


class First(NamedTuple):
    """The first rows of a table, in its order, and how many there are."""

    rows: pa.Table
    total: int


class WrittenTables(_Connection):
    """OUT/tables, whichever engine wrote them: read in order, never whole, in MEMORY however many rows they have."""

    def __init__(self, folder: str | Path) -> None:
        """folder: a path, or a URL that fsspec opens."""
        self._folder = str(folder)
        self._viewed: set[str] = set()
        self._described: dict[str, tuple[str, dict[str, str]]] = {}
        with ExitStack() as stack:
            super().__init__(self._folder, stack.enter_context(scratch.folder()), MEMORY)
            self._room = stack.pop_all()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        super().__exit__(kind, error, at)
        self._room.close()

    def names(self) -> list[str]:
        """The tables that are there."""
        return sorted(self._files)

    @cached_property
    def _files(self) -> dict[str, list[str]]:
        """Tables -> their files. A table is a file, or a folder of them."""
        found: dict[str, list[str]] = {}
        for path in filesystem.find(self._folder):
            if path.endswith(".parquet"):
                name = path.partition("/")[0].removesuffix(".parquet")
                found.setdefault(name, []).append(filesystem.join(self._folder, path))
        return found

    def first(self, name: str, limit: int) -> First:
        """The first rows of a table. Rows that are equal in its order are ordered by all columns.

        Tables of older versions lack columns; they are ordered by those that they have.
        """
        relation, kinds = self._written(name)
        columns = ", ".join(map(DuckDB().quoted, kinds))
        terms = TABLES[name].ordered_by(kinds) if name in TABLES else ""
        order = f"{terms}, {columns}" if terms else columns
        rows = self.fetch(f"select {columns} from {relation} order by {order} limit {limit}")
        total = rows.num_rows
        if total == limit:
            ((total,),) = self.duckdb.execute(f"select count(*) from {relation}").fetchall()
        return First(rows, total)

    def rows(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query that gives few, over all rows of the tables, by their names.

        Columns of today that older versions did not write are null.
        """
        for name in TABLES.keys() - self._viewed:
            if re.search(rf"\b{name}\b", query):
                self._view(name)
                self._viewed.add(name)
        return self.fetch(query).to_pylist()  # type: ignore[no-any-return]

    def _view(self, name: str) -> None:
        relation, kinds = self._written(name) if name in self._files else ("(select 1 where false)", {})
        columns = (
            quoted if column.name in kinds else f"null::{_type(column)} as {quoted}"
            for column, quoted in ((c, DuckDB().quoted(c.name)) for c in TABLES[name].columns)
        )
        self.duckdb.execute(f"create view {DuckDB().quoted(name)} as select {', '.join(columns)} from {relation}")

    def sums(self, name: str) -> dict[str, int]:
        """The sum of each column of whole numbers, over all rows."""
        relation, kinds = self._written(name)
        names = [column for column, kind in kinds.items() if kind in ("BIGINT", "INTEGER")]
        if not names:
            return {}
        sums = ", ".join(f"coalesce(sum({DuckDB().quoted(column)}), 0)" for column in names)
        (values,) = self.duckdb.execute(f"select {sums} from {relation}").fetchall()
        return dict(zip(names, values, strict=True))

    def _written(self, name: str) -> tuple[str, dict[str, str]]:
        """The relation of a table, and the types of its columns."""
        if name not in self._described:
            relation = files(*self._files[name])
            self._described[name] = relation, _columns(self.duckdb, relation)
        return self._described[name]


def _type(column: TableColumn) -> str:
    """The type of a column that is not there."""
    return {"list": "varchar[]", "": "varchar", "time": "timestamptz"}.get(column.unit, "bigint")


def give_name(duckdb: DuckDBPyConnection, name: str, rows: pa.Table | Dataset) -> None:
    """Name the rows of a table, or of a dataset's files: these DuckDB reads three times as fast as through Arrow."""
    if isinstance(rows, pa.Table):
        duckdb.register(name, rows)
    else:
        duckdb.execute(f"create view {DuckDB().quoted(name)} as {fitted(duckdb, files(*rows.files), rows.schema)}")


def fitted(duckdb: DuckDBPyConnection, relation: str, schema: pa.Schema) -> str:
    """A SELECT of the rows of a relation with the columns of a schema; those that the relation lacks are null."""
    duckdb.register("wanted", schema.empty_table())
    wanted, found = _columns(duckdb, "wanted"), _columns(duckdb, relation)
    duckdb.unregister("wanted")
    quoted = {name: DuckDB().quoted(name) for name in wanted}
    terms = (f"{quoted[n] if n in found else 'null'}::{kind} as {quoted[n]}" for n, kind in wanted.items())
    return f"select {', '.join(terms)} from {relation}"


def _columns(duckdb: DuckDBPyConnection, relation: str) -> dict[str, str]:
    """The columns of a relation -> their types."""
    return {row[0]: row[1] for row in duckdb.execute(f"describe select * from {relation}").fetchall()}


def files(*roots: str) -> str:
    """A relation over Parquet files and all files of folders; roots: paths or URLs."""
    found = ", ".join(literal(_pattern(root)) for root in roots)
    return f"read_parquet([{found}], union_by_name = true, hive_partitioning = false)"


def _pattern(root: str) -> str:
    path = filesystem.local_path(root)
    folder = not root.endswith(".parquet") if path is None else path.is_dir()
    inside = "/**/*.parquet" if folder else ""
    return glob.escape(root if path is None else str(path)) + inside
