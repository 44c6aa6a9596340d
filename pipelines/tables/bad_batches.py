"""Bad batches among the records, and the rows that may tell why: what forensics asks of whichever engine holds them."""

from __future__ import annotations

from typing import Any

from dissectors.forensics.related import ANSWERED, IDENTITIES, REACTION, RELATED, SIGHTING, Surroundings
from dissectors.records import schema
from pipelines.tables.compute import TableEngine, bound
from pipelines.tables.integrity import LISTED

Row = dict[str, Any]
_BAD = "bad_batches"  # the name that their rows get
_ORDER = ", ".join(f"{column} nulls last" for column in ("time", "file", "packet", "stream_offset"))


def bad_batches(engine: TableEngine) -> list[Row]:
    """Rows of `batches` with a bad checksum, in order of time: the first LISTED.

    Where there are some, the engine knows them as `bad_batches` from then on.
    """
    columns = _columns(engine, "batches")
    query = f"select {columns} from all_batches where verdict = 'bad' order by {_ORDER} limit {LISTED}"
    rows = engine.fetch(bound(engine.dialect, query, engine.relations))
    if rows.num_rows:
        engine.add(_BAD, rows)
    return rows.to_pylist()  # type: ignore[no-any-return]


def bad_connections(engine: TableEngine) -> list[Row]:
    """The rows of `connections` on which the bad batches came."""
    same = " and ".join(f"c.{key} = k.{key}" for key in ("site", "connection", "incarnation"))
    columns = _columns(engine, "connections")
    query = f"select {columns} from all_connections c where exists (select 1 from {_BAD} k where {same})"
    return engine.fetch(bound(engine.dialect, query, engine.relations)).to_pylist()  # type: ignore[no-any-return]


def _columns(engine: TableEngine, table: str) -> str:
    """The columns of a record table, without what its files say besides."""
    return ", ".join(map(engine.dialect.quoted, schema(table).names))


def lifetimes(engine: TableEngine) -> list[Row]:
    """When the bad batches' endpoints were connected with each other, first to last: a row for each direction."""
    ends = ("client_ip", "client_port", "server_ip", "server_port")
    same = " and ".join(f"c.{key} = k.{key}" for key in ends)
    turned = " and ".join(f"c.{one} = k.{other}" for one, other in zip(ends, ends[2:] + ends[:2], strict=True))
    columns = ", ".join(f"c.{key}" for key in ("site", *ends))
    query = f"""
        select {columns}, min(c.start_time) as start_time, max(c.end_time) as end_time
        from all_connections c
        where exists (select 1 from {_BAD} k where c.site = k.site and {same})
            or exists (select 1 from {_BAD} k where c.site = k.site and {turned})
        group by {columns}
    """
    return engine.fetch(bound(engine.dialect, query, engine.relations)).to_pylist()  # type: ignore[no-any-return]


def surroundings(engine: TableEngine) -> Surroundings:
    """The sightings and answers that may belong to one of the bad batches."""
    same = [" and ".join(f"b.{key} = k.{key}" for key in keys) for _, keys in IDENTITIES]
    anywhere = " or ".join(f"exists (select 1 from {_BAD} k where {condition})" for condition in same)
    sightings = f"select {', '.join(SIGHTING)} from all_batches b where {anywhere} limit {RELATED * LISTED}"
    answers = " and ".join(f"e.{key} = k.{key}" for key in ANSWERED)
    reaction = " or ".join(f"lower(e.name) like '%{word}%'" for word in REACTION.split("|"))
    reactions = f"""
        select {_columns(engine, "errors")} from all_errors e
        where ({reaction}) and exists (select 1 from {_BAD} k where {answers}) limit {LISTED}
    """
    found, answered = (engine.fetch(bound(engine.dialect, query, engine.relations)) for query in (sightings, reactions))
    return Surroundings(found, answered.to_pylist()).ordered()
