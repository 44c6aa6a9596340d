"""DuckDB in this process, closed: no files, no network, no extensions, no settings that a query could change."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dissectors.errors import InputError
from dissectors.wording import did_you_mean

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SETTINGS = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # a query sees what is registered, not the variables of this program
    "temp_directory": "",
}
_OF_FILE = re.compile(r"""^(IO|Invalid) Error:|\bfile ["']|Parquet|reading the stream registered as""")
"""What DuckDB says of a damaged file, and not of a query that means nothing."""

_NO_TABLE = re.compile(r"Catalog Error: Table with name (\w+) does not exist")

SMALL = 128 << 20
"""Bytes of rows up to which planning queries costs more than running them, so that further threads only add to it."""


def connect(size: int | None = None, files: Sequence[str] = (), *, only_ours: bool = False) -> DuckDBPyConnection:
    """A connection to an empty database in memory; times are UTC.

    size: bytes of what it will be asked about, where that is known; files: paths of the only ones that it may open.
    only_ours: queries are this program's own, and make nothing in it. Where they are small the database stays, as to
    make one takes 20 ms, as long as they do; what is registered is seen by one connection only.
    """
    import duckdb

    is_small = size is not None and size <= SMALL
    if only_ours and is_small:
        return _lasting(os.getpid()).cursor()
    connection = duckdb.connect(":memory:", config={**_SETTINGS, **({"threads": "1"} if is_small else {})})
    if files:
        patterns = dict.fromkeys(form for file in files for form in (file, glob.escape(file)))  # DuckDB checks both
        connection.execute(f"SET allowed_paths = [{', '.join(map(literal, patterns))}]")
        connection.execute("SET parquet_metadata_cache = true")  # many queries read the same files
    connection.execute("SET enable_external_access = false")
    connection.execute("SET GLOBAL TimeZone = 'UTC'")  # of cursors, too
    connection.execute("SET lock_configuration = true")
    return connection


@cache
def _lasting(process: int) -> DuckDBPyConnection:
    """The database of a process: one that was forked has none of the threads of the one before."""
    return connect(0)


Row = dict[str, Any]


def fetched(connection: DuckDBPyConnection, query: str, parameters: Sequence[Any] = ()) -> list[Row]:
    """The rows of a query that gives few, by the names of its columns. Raises duckdb.Error."""
    answer = connection.execute(query, list(parameters))  # a relation would be bound twice
    names = [column[0] for column in answer.description]
    return [dict(zip(names, row, strict=True)) for row in answer.fetchall()]


def sentence(error: Exception) -> str:
    """What DuckDB says against a query, in one line."""
    return " ".join(str(error).split("\n\nLINE")[0].split())


def against(error: Exception, known: Sequence[str]) -> str:
    """What is said against a query; of a table that there is not, which was probably meant. known: all tables."""
    asked = _NO_TABLE.match(str(error))
    return sentence(error) if asked is None else f"no table {asked[1]!r}; {did_you_mean(asked[1], known)}"


def is_unreadable(error: Exception, files: Sequence[str] = ()) -> bool:
    """Whether a query failed because a table could not be read: the file behind it is damaged, or gone.

    error: DuckDB's, or Arrow's of an answer that is read along. files: those that the query reads.
    """
    import duckdb

    if isinstance(error, duckdb.PermissionException):  # what DuckDB says of a file that an update has removed
        return not all(Path(file).exists() for file in files)
    if type(error) in (duckdb.Error, duckdb.IOException):
        return True
    unsure = not isinstance(error, duckdb.Error) or type(error) is duckdb.InvalidInputException
    return unsure and bool(_OF_FILE.search(str(error)))


def unreadable(error: Exception) -> InputError:
    """The error to raise where `is_unreadable`."""
    return InputError(f"records that cannot be read: {sentence(error)}")


def literal(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
