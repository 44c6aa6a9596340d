"""The rows that verdicts count: the requests that a choice selects, and, where a verdict counts other rows, a table."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.report.requests import packed_table
from pipelines.report.section import Builder
from pipelines.sql.words import CLIENT, SERVER
from pipelines.tables.table import TableColumn
from pipelines.tables.verdicts import SCHEMA
from pipelines.tables.verdicts.evidence import SAME_ROW

Row = dict[str, Any]

EACH = 1_000  # rows that the page carries of a verdict
ALL = 10_000  # and of all verdicts

_COLUMNS = (
    TableColumn("time", "first byte, or first packet", "time"),
    TableColumn("what", "a batch and its role, a connection, or the finding"),
    TableColumn("total_ns", "first to last packet", "ns"),
    TableColumn("messages", "that a batch holds", "count"),
    TableColumn("bytes", "that it has on the wire, or a connection captured", "bytes"),
    TableColumn("status", "of a batch its checksum, of a connection how it ended"),
    TableColumn("client", "client address and the name it gives itself"),
    TableColumn("broker", "server address and port"),
    TableColumn("topics", "topics that it names", "list"),
    TableColumn("group", "consumer group, share group or subscription"),
    TableColumn("file", "where it is"),
    TableColumn("packet", "its number in that file, from 1", "code"),
)
_WHERE = f"{SERVER} as broker, e.file, e.packet, e.rank, e.nth"
_ROWS = {
    "batches": f"""
        select epoch_us(time) as time, concat_ws(' ', 'batch,', role) as what, records as messages,
            stored_bytes as bytes, verdict as status, {CLIENT} as client, [topic] as topics, "group", {_WHERE}""",
    "connections": f"""
        select epoch_us(start_time) as time, 'connection' as what, duration_ns as total_ns,
            client_bytes + server_bytes as bytes, closed as status, client_ip as client, {_WHERE}""",
    "findings": f"""
        select epoch_us(time) as time, message as what, client_ip as client, {_WHERE}""",
}
"""Record table -> what the page shows of its rows r at places e. Requests are in the table of all requests."""


_PLACES = pa.schema([*SCHEMA.field("evidence").type.value_type, ("rank", pa.int32()), ("nth", pa.int64())])


class CarriedEvidence(NamedTuple):
    """What the page carries of a verdict's evidence."""

    requests: int
    table: str | None
    """Name of the table of the counted rows, where they are no requests."""


def carry(page: Builder, verdicts: Sequence[Mapping[str, Any]]) -> dict[int, CarriedEvidence]:
    """Carry the counted rows of verdicts, by rank, and what the script needs to select them."""
    carried = Counter[int]()
    if page.requests is not None:
        evidence = page.requests.evidence()
        page.payload.evidence(packed_table(evidence))
        carried.update(evidence["rank"].to_pylist())
    rows, known = _carried_rows(page, verdicts), {}
    for verdict in verdicts:
        rank = verdict["rank"]
        known[rank] = CarriedEvidence(carried[rank], _table(page, verdict, rows[rank]) if rank in rows else None)
        page.payload.verdict(verdict)
    return known


def _carried_rows(page: Builder, verdicts: Sequence[Mapping[str, Any]]) -> dict[int, list[Row]]:
    """Rank of a verdict -> its rows, where they are no requests. Each record table is read once for all verdicts."""
    records, rows = page.analysis.records, defaultdict[int, list[Row]](list)
    if records is None:
        return rows
    room, places = page.payload.limit(ALL), defaultdict[str, list[Row]](list)
    for verdict in verdicts:
        if verdict["counted"] in _ROWS:  # tables of older versions do not say what is counted
            some = verdict["evidence"][: min(page.payload.limit(EACH), room)]
            room -= len(some)
            places[verdict["counted"]] += (
                {**place, "rank": verdict["rank"], "nth": nth} for nth, place in enumerate(some)
            )
    for counted, wanted in places.items():
        records.give("places", pa.Table.from_pylist(wanted, _PLACES))
        query = f"{_ROWS[counted]} from {counted} r join places e on {SAME_ROW[counted]} order by e.rank, e.nth"
        for row in records.rows(query):
            rows[row["rank"]].append(row)
    return rows


def _table(page: Builder, verdict: Mapping[str, Any], rows: Sequence[Row]) -> str:
    name = f"evidence_{verdict['rank']}"
    filled = [column for column in _COLUMNS if any(row.get(column.name) is not None for row in rows)]
    page.payload.table(name, filled, rows, total=verdict["count"], more="t_verdicts in `brokerscope sql`")
    return name
