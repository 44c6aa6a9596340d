"""Requests and batches that are the evidence of verdicts, counted as counted.py counts all of them.

A request belongs to a verdict that counts it or a batch that it carries; of a verdict that counts connections, or
findings, all requests of these connections do. Batches belong to a verdict in the same way.

    verdict_request_keys, verdict_topic_keys, verdict_data_keys   as in counted.py, and `verdict`: the name of one
    verdict_request_cells, verdict_data_cells                     as in counted.py
    verdict_touched                                               the connections of each verdict's evidence

Their keys are KEYS * (key of counted.py) + rank of the verdict.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from pipelines.report.counted import DATA_MEASURES, MEASURES
from pipelines.report.records import Records
from pipelines.sql.words import EXCUSED
from pipelines.tables.verdicts.evidence import SAME_ROW
from pipelines.tables.verdicts.verdict import SCHEMA

VERDICTS = 1_000  # that can be selected: the worst
PLACES = 100_000  # rows that they count, of all together

_KEYS = VERDICTS + 1
_PLACES = pa.schema([*SCHEMA.field("evidence").type.value_type, ("rank", pa.int32()), ("counted", pa.string())])
_NAMES = pa.schema([("rank", pa.int32()), ("verdict", pa.string())])


def name(verdict: Mapping[str, Any]) -> str:
    """The name of a verdict in the selector: `3. slow_requests`."""
    return f"{verdict['rank']}. {verdict['kind']}"


def count(records: Records, verdicts: Sequence[Mapping[str, Any]]) -> None:
    """Make the tables, after those of counted.py. verdicts: rows of the table `verdicts`, the worst first."""
    chosen = verdicts[:VERDICTS]
    room, places = PLACES, []
    for verdict in chosen:
        evidence = verdict["evidence"][:room]
        room -= len(evidence)
        places += [{**place, "rank": verdict["rank"], "counted": verdict["counted"]} for place in evidence]
    records.give("verdict_places", pa.Table.from_pylist(places, _PLACES))
    names = [{"rank": verdict["rank"], "verdict": name(verdict)} for verdict in chosen]
    records.give("verdict_names", pa.Table.from_pylist(names, _NAMES))
    _of_connections(records)
    _requests(records)
    _data(records)


def _rows(table: str, columns: str) -> str:
    """A SELECT of the rows r of a record table at the places e of verdicts that count rows of it."""
    return f"""
        select distinct rank, {columns} from {table} r
        join (select * from verdict_places where counted = '{table}') e on {SAME_ROW[table]}"""


def _of_connections(records: Records) -> None:
    place = "r.site, r.connection, r.incarnation"
    records.run(f"""
        create temp table verdict_connections as
        {_rows("connections", place)} union {_rows("findings", place)}""")
    records.run(f"""
        create temp table verdict_touched as
        select * exclude rank from (
            from verdict_connections union {_rows("exchanges", place)} union {_rows("batches", place)}
        ) join verdict_names using (rank)""")


def _requests(records: Records) -> None:
    one = "r.site, r.exchange_id"
    rows = f"""
        with single as ({_rows("exchanges", one)} union {_rows("batches", one)}), seen as (
            select c.*, rank from calls c join single using (site, exchange_id) where asked
            union all
            select c.*, rank from calls c join verdict_connections using (site, connection, incarnation) where asked
        )
        select s.* replace (failed and x.exchange_id is null as failed)
        from seen s left join ({EXCUSED}) x using (site, exchange_id)"""
    _count(records, rows, "verdict_request_cells", "bucket, bin", MEASURES)
    weight = "sum(n + polls + unanswered)"
    for keys in ("request_keys", "topic_keys"):
        _name(records, keys, "verdict_request_cells", weight)


def _data(records: Records) -> None:
    rows = f"""
        with single as ({_rows("exchanges", "r.site, r.exchange_id")})
        select r.*, rank from carried r join single using (site, exchange_id)
        union all
        select r.*, rank from carried r
        join (select * from verdict_places where counted = 'batches') e on {SAME_ROW["batches"]}
        union all
        select r.*, rank from carried r join verdict_connections using (site, connection, incarnation)"""
    _count(records, rows, "verdict_data_cells", "bucket", DATA_MEASURES)
    _name(records, "data_keys", "verdict_data_cells", "sum(batches)")


def _count(records: Records, rows: str, cells: str, by: str, measures: Mapping[str, str]) -> None:
    counts = ", ".join(f"{value} as {measure}" for measure, value in measures.items())
    records.run(f"""
        create temp table {cells} as select key * {_KEYS} + rank as key, {by}, {counts} from ({rows}) group by all""")


def _name(records: Records, keys: str, cells: str, weight: str) -> None:
    """Make verdict_<keys>: the keys of counted.py for each verdict that has a cell of them."""
    records.run(f"""
        create temp table verdict_{keys} as
        select k.* replace (c.key as key, c.weight as weight), verdict
        from (select key, {weight} as weight from {cells} group by key) c
        join {keys} k on k.key = c.key // {_KEYS} join verdict_names on rank = c.key % {_KEYS}""")
