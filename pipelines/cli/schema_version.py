"""What programs may rely on of outputs, as a number and a digest. docs/compatibility.md says what raises the number.

    2 5f1c0c9ad7b3

The number (`SCHEMA` of storage/layout.py, also in OUT/analysis.json) is raised by a release in which something goes, is
renamed, or means something else; the digest changes with every name and type of a table, a column, a kind of finding or
verdict, or an exit code, so also where one is added.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256

from pipelines.cli import exits
from pipelines.storage.layout import SCHEMA


def promised() -> Iterator[str]:
    """Everything that has a name which programs may rely on, a line each."""
    from dissectors import findings, records
    from pipelines.tables.registry import TABLES
    from pipelines.tables.verdicts.kinds import KINDS

    for table in records.TABLES:
        for column in records.columns(table, full=True, payloads=True):
            yield f"record {table}.{column.name} {column.type}"
    for table, made in TABLES.items():
        yield from (f"table {table}.{column.name}" for column in made.columns)
    yield from (f"finding {kind}" for kind in findings.KINDS)
    yield from (f"verdict {kind}" for kind in KINDS)
    yield from (f"exit code {code}" for code in exits.MEANINGS)


def schema_version() -> str:
    """The number and the digest, as `brokerscope --schema-version` prints them."""
    names = "\n".join(sorted(promised()))
    return f"{SCHEMA} {sha256(names.encode()).hexdigest()[:12]}"
