"""Lists of the record files that tasks write: they lie in files, and the driver knows how much each of them names."""

from __future__ import annotations

import json
import secrets as random
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from pipelines.storage import filesystem
from pipelines.storage.record_files import Written

LISTS = "lists"  # folder of a run's staging folder


class Amount(NamedTuple):
    """How much of a table a list names."""

    files: int
    size: int  # bytes of them


class Listing(NamedTuple):
    """A list of record files."""

    name: str  # below staging/lists
    tables: dict[str, Amount]

    @property
    def files(self) -> int:
        """Files that it names."""
        return sum(amount.files for amount in self.tables.values())

    @property
    def size(self) -> int:
        """Bytes of these."""
        return sum(amount.size for amount in self.tables.values())


def write_list(staging: str, files: Iterable[Written], sizes: Mapping[str, int]) -> Listing:
    """Write a list of files below staging. sizes: bytes of each, by its path."""
    name = f"{random.token_hex(8)}.json"
    tables: dict[str, Amount] = {}
    rows = []
    for file in files:
        known = tables.get(file.table, Amount(0, 0))
        tables[file.table] = Amount(known.files + 1, known.size + sizes[file.path])
        rows.append(file)
    filesystem.write(filesystem.join(staging, LISTS, name), json.dumps(rows).encode())
    return Listing(name, tables)


def read_lists(staging: str, names: Iterable[str]) -> Iterator[Written]:
    """The files that lists name. Raises StorageError where one is not there."""
    for name in names:
        place = filesystem.join(staging, LISTS, name)
        data = filesystem.read(place)
        if data is None:
            raise filesystem.StorageError(f"{place}: cannot be read: it is gone")
        yield from (Written(*row) for row in json.loads(data))
