"""Small record files become files of a size, where they stay.

    decode, put in names ─ record files and a list of them, each task ─► join ─► OUT/records/<table>/*.parquet

Each task that decodes writes a file for each table, capture point and day that it has rows of. The driver shares the
lists out: a task gets so many of them as make files of RECORD_BYTES. What is alone for its table, capture point and day
is copied as it is.
"""

from __future__ import annotations

import math
import secrets as random
from collections.abc import Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple

from dissectors.limits import MIB
from pipelines.executors.executor import Executor, grouped
from pipelines.formats import units
from pipelines.jobs.decode import RECORDS, merge_files
from pipelines.jobs.listings import Listing, read_lists
from pipelines.storage import filesystem
from pipelines.storage.record_files import TableFile, Written, named, share

RECORD_BYTES = 128 * MIB  # of a record file, about
_HERE = 4 * MIB  # of records that this process joins itself: a task would cost more


class TableLists(NamedTuple):
    """Files of a table that become files of a size."""

    table: str
    lists: tuple[str, ...]  # that name them
    size: int  # bytes


def join_all(executor: Executor, staging: str, listings: Sequence[Listing], target: str, name: str) -> list[Written]:
    """Write the files of all lists as files of a size below a folder.

    name: what their names begin with. Files of a task that failed may lie there too.
    """
    work = shared_out(listings)
    task = partial(join, staging, target, name)
    size = sum(listing.size for listing in listings)
    if len(listings) == 1 or size <= _HERE:
        made = [task(some) for some in work]
    else:
        files = units.counted(sum(listing.files for listing in listings), "file")
        described_as = f"joining files of records: {files}, {units.size(size)}"
        made = executor.map(task, work, described_as, size)
    return [file for some in made for file in some]


def shared_out(listings: Sequence[Listing]) -> list[list[TableLists]]:
    """What each task joins."""
    groups: list[TableLists] = []
    for table in sorted({table for listing in listings for table in listing.tables}):
        lists: list[str] = []
        size = most = 0
        for listing in (one for one in listings if table in one.tables):
            amount = listing.tables[table]
            lists.append(listing.name)
            size, most = size + amount.size, max(most, amount.files)
            if size >= RECORD_BYTES * most:  # a list names a file for each day, about
                groups.append(TableLists(table, tuple(lists), size))
                lists, size, most = [], 0, 0
        if lists:
            groups.append(TableLists(table, tuple(lists), size))
    most = min(RECORD_BYTES, max(_HERE, math.ceil(sum(group.size for group in groups) / 64)))
    return grouped(sorted(groups, key=lambda group: -group.size), attrgetter("size"), most)


def join(staging: str, target: str, name: str, groups: Sequence[TableLists]) -> list[Written]:
    """Write the files of groups as one for each table, capture point and day."""
    out: list[Written] = []
    for group in groups:
        shares: dict[str, list[Written]] = {}
        for file in read_lists(staging, group.lists):
            if file.table == group.table:
                shares.setdefault(share(file.path), []).append(file)
        for place, files in shares.items():
            own = f"{name}-{random.token_hex(8)}"
            urls = [filesystem.join(staging, RECORDS, file.path) for file in files]
            if len(files) == 1:
                out.append(files[0]._replace(path=named(place, own)))
                filesystem.copy(urls[0], filesystem.join(target, out[-1].path))
            else:
                out += merge_files(target, [TableFile(group.table, url) for url in urls], own)
    return out
