"""The rows that verdicts count, as tables of the page: one under each verdict, drawn when somebody selects it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.formats.statuses import MARKED
from pipelines.report.counted_evidence import VERDICTS
from pipelines.report.payload import LIST
from pipelines.report.section import Builder
from pipelines.sql.words import CLIENT, SERVER
from pipelines.tables.table import TableColumn
from pipelines.tables.verdicts.evidence import SAME_ROW
from pipelines.tables.verdicts.verdict import SCHEMA

EACH = 1_000  # rows that the page carries of a verdict
ALL = 10_000  # and of all verdicts

_COLUMNS = (
    TableColumn("time", "first byte, or first packet", "time"),
    TableColumn("what", "the API of an exchange, the table of another row"),
    TableColumn("total_ns", "first to last byte, or packet", "ns"),
    TableColumn("messages", "that a batch holds", "count"),
    TableColumn("bytes", "that it has on the wire, or a connection captured", "bytes"),
    TableColumn("status", "ok or the first error; of a batch its checksum, of a connection how it ended"),
    TableColumn("client", "client address and the name it gives itself"),
    TableColumn("broker", "server address and port"),
    TableColumn("topics", "topics that it names", "list"),
    TableColumn("group", "consumer group, share group or subscription"),
    TableColumn("file", "where it is"),
    TableColumn("packet", "its number in that file, from 1", "code"),
)
_WHERE = f"{SERVER} as broker, e.file, e.packet, e.rank, e.nth"
_ROWS = {
    "exchanges": f"""
        select epoch_us(time) as time, coalesce(api, kind) as what, total_ns, {MARKED} as status, {CLIENT} as client,
            topics[:{LIST}] as topics, len(topics) as topics_total, "group", {_WHERE}""",
    "batches": f"""
        select epoch_us(time) as time, concat_ws(' ', 'batch,', role) as what, records as messages,
            stored_bytes as bytes, verdict as status, {CLIENT} as client, [topic] as topics, "group", {_WHERE}""",
    "connections": f"""
        select epoch_us(start_time) as time, 'connection' as what, duration_ns as total_ns,
            client_bytes + server_bytes as bytes, closed as status, client_ip as client, {_WHERE}""",
    "findings": f"""
        select epoch_us(time) as time, message as what, client_ip as client, {_WHERE}""",
}
"""Record table -> what the page shows of its rows r at places e."""


_PLACES = pa.schema([*SCHEMA.field("evidence").type.value_type, ("rank", pa.int32()), ("nth", pa.int64())])


def carry(page: Builder, verdicts: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """Carry the counted rows of verdicts as tables: rank -> name of the table. None where there are no records.

    With them goes what the selector knows of each verdict.
    """
    records, room = page.analysis.records, ALL
    if records is None:
        return {}
    places: dict[str, list[dict[str, Any]]] = {}
    for verdict in verdicts:
        if verdict["counted"] in _ROWS:  # tables of older versions do not say
            some = verdict["evidence"][: min(EACH, room)]
            room -= len(some)
            numbered = ({**place, "rank": verdict["rank"], "nth": nth} for nth, place in enumerate(some))
            places.setdefault(verdict["counted"], []).extend(numbered)
    rows: dict[int, list[dict[str, Any]]] = {}
    for table, some in places.items():
        records.give("places", pa.Table.from_pylist(some, _PLACES))
        query = f"{_ROWS[table]} from {table} r join places e on {SAME_ROW[table]} order by e.rank, e.nth"
        for row in records.rows(query):
            rows.setdefault(row["rank"], []).append(row)
    ranked = {verdict["rank"]: verdict for verdict in verdicts}
    tables = {rank: _table(page, ranked[rank], found) for rank, found in rows.items()}
    page.payload.verdicts(verdicts[:VERDICTS], tables)
    return tables


def _table(page: Builder, verdict: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> str:
    name = f"evidence_{verdict['rank']}"
    filled = [column for column in _COLUMNS if any(row.get(column.name) is not None for row in rows)]
    page.payload.table(name, filled, rows, total=verdict["count"], more="t_verdicts in `brokerscope sql`")
    return name
