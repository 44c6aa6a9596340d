"""DuckDB in this process, closed: no files, no network, no extensions, no settings that a query could change."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import duckdb

_SETTINGS = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
    "allow_community_extensions": "false",
    "python_enable_replacements": "false",  # a query sees what is registered, not the variables of this program
    "temp_directory": "",
}


def connect() -> duckdb.DuckDBPyConnection:
    """A connection to an empty database in memory; times are UTC."""
    import duckdb

    connection = duckdb.connect(":memory:", config=dict(_SETTINGS))
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("SET lock_configuration = true")
    return connection


def sentence(error: Exception) -> str:
    """What DuckDB says against a query, in one line."""
    return " ".join(str(error).split("\n\nLINE")[0].split())


def is_unreadable(error: Exception) -> bool:
    """Whether a query failed because a table that it reads could not be read: the file behind it is damaged."""
    return "reading the stream registered as" in str(error)


def literal(text: str) -> str:
    """A text as SQL has it."""
    return "'" + text.replace("'", "''") + "'"
