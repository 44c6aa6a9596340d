"""Transactions that producers gave up, or that the coordinator aborted as they were open for too long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from dissectors.kafka.errors import error
from pipelines.formats import who
from pipelines.tables.transactions import ENDED_BY_COORDINATOR, SENT, TIMED_OUT
from pipelines.tables.verdicts import impact, say
from pipelines.tables.verdicts.capture import HEARD, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import REFUSED
from pipelines.tables.verdicts.thresholds import LISTED
from pipelines.tables.verdicts.verdict import Row, Ruling, sql_list

# an EndTxn that gave its transaction up, the messages of its producer since the one before, and whether the capture
# lacks bytes of requests that carried some
_ABORTED = f"""
    with ended as (
        select client, until from v_calls where api = 'EndTxn'
    ), aborted as (
        select *, subject as id, number::varchar as producer_id, coalesce((
                select max(until) from ended e where e.client = v.client and e.until < v.until
            ), to_timestamp(0)) as before
        from v_noted v where event = 'transaction_aborted' and api = 'EndTxn'
    ), first_sent as (
        select * from ({SENT}) where outcome is distinct from 'error' and (sent = 1 or base_sequence is null)
    ), incomplete as (
        select client, time from v_calls where api = 'Produce' and not complete
    )
    select a.*, (
            select sum(records) from first_sent b
            where b.producer = a.producer_id and b.time < a.until and b.time > before
        ) as messages, exists (
            select 1 from incomplete c where c.client = a.client and c.time < a.until and c.time > before
        ) as cut
    from aborted a"""
# transactions that these clients ended, either way
_ENDED = """
    select client, count(*) as count from v_calls
    where api = 'EndTxn' and status = 'ok'
        and client in (select client from v_noted where event = 'transaction_aborted')
    group by client"""


@needs(SomeRows("events", "kind in ('transaction_aborted', 'transaction_began')"))
def transactions_aborted(capture: Capture) -> Iterator[Ruling]:
    """Of each transactional id, the transactions that timed out, and those that it gave up."""
    yield from _timed_out(capture)
    if not capture.rows("select 1 from events where kind = 'transaction_aborted' limit 1"):
        return
    ended = {row["client"]: row["count"] for row in capture.rows(_ENDED)}
    sums = "saturated(sum(messages)) as messages, bool_or(cut) as cut"
    for row in capture.together(_ABORTED, ["protocol", "id"], sums):
        every = sum(ended.get(client, 0) for client in row["clients"])
        least = "at least " if row["cut"] else ""
        messages = f", with {least}{say.counted(row['messages'], 'message')}" if row["messages"] else ""
        whose = f"{say.clients(row)} ({row['id']})" if row["id"] else say.clients(row)
        yield Ruling(
            "transactions_aborted",
            f"Producer {whose} aborted {row['count']} of {say.counted(every, 'transaction')}{messages}.",
            row,
            "Consumers that read committed messages skip these.",
        )


_LATE = "late"  # the relation of transactions that timed out
# requests by whose errors a producer heard that its transaction had timed out, or at which that is certain
_HEARD = f"""
    with over as (
        select transaction, client as producer, epoch_us(time) + open_ns // 1000 as over_us, file, packet from {_LATE}
    ), refused as (
        select e.site, e.exchange_id, e.time, o.* from v_errors e
            join (select distinct transaction, producer from over) o on coalesce(e.client_id, e.client_ip) = o.producer
        where name in {sql_list([error(code).name for code in ENDED_BY_COORDINATOR])}
    )
    select transaction, producer, site, exchange_id
    from over o join v_calls c on c.request_file = o.file and c.request_packet = o.packet
    union select transaction, producer, site, exchange_id
    from over o join v_calls c on c.response_file = o.file and c.response_packet = o.packet
    union select r.transaction, r.producer, r.site, r.exchange_id
    from refused r asof join over o
        on o.transaction = r.transaction and o.producer = r.producer and o.over_us <= epoch_us(r.time)
    asof left join (from events where kind = 'transaction_began') b on b.subject = r.transaction and b.time < r.time
    where b.time is null or epoch_us(b.time) < o.over_us"""


def _timed_out(capture: Capture) -> Iterator[Ruling]:
    """Of each transactional id and client, those that the coordinator aborted; what is counted is kept as HEARD."""
    import pyarrow.compute as pc  # loading it takes as long as several checks

    late = capture.transactions.filter(pc.field("outcome") == TIMED_OUT)
    if not len(late):
        return
    alike: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in late.to_pylist():  # those of Pulsar have no name, but an id each
        alike["" if one["protocol"] == "pulsar" else one["transaction"], one["client"]].append(one)
    capture.duckdb.register(_LATE, late)
    capture.keep(HEARD, _HEARD)
    heard = f"""
        select * replace (if(protocol = 'pulsar', '', transaction) as transaction)
        from v_calls join {HEARD} using (site, exchange_id)"""
    for row in capture.together(heard, ["transaction", "producer"]):
        yield _told(alike[row["transaction"], row["producer"]], row)


def _told(some: list[Row], row: Row) -> Ruling:
    """The verdict on transactions of one id and client that timed out. row: the requests that showed it."""
    first, messages = some[0], sum(one["records"] for one in some)
    name, allowed = first["transaction"], say.span(first["allowed_ns"])
    lost = f", with {say.counted(messages, 'message')}" if messages else ""
    one_of_them = len(some) == 1
    of_name = f" of {name}" if first["protocol"] == "kafka" else ""
    what = f"transaction {name}" if one_of_them else f"{len(some)} transactions{of_name}"
    hosts = who.addresses(row["clients"])
    of = {
        "protocol": row["protocol"], "client_ip": hosts[0] if len(hosts) == 1 else None, "client_id": first["client"],
        "evidence": row["evidence"],
    }  # fmt: skip
    return Ruling(
        "transactions_aborted",
        f"{say.clients(row)} did not end {what} in time: the coordinator aborted "
        f"{'it after its' if one_of_them else 'them after their'} time-out of {allowed}{lost}.",
        row | {"topics": sorted({*row["topics"], *(topic for one in some for topic in one["topics"])})[:LISTED]},
        f"The first began at {say.clock(say.micros(first['time']))}; what shows its end is "
        f"{say.place(first['file'], first['packet'])}.",
        advice="End transactions sooner, make them smaller, or give them a longer time-out (Kafka: "
        "transaction.timeout.ms). What was aborted has to be produced again.",
        work=[
            impact.impact(
                REFUSED, of | {"transaction": one["transaction"], "from": one["time"], "until": _end(one)},
                messages=one["records"], topic=one["topics"][0] if len(one["topics"]) == 1 else None,
                time_ns=one["open_ns"],
            )
            for one in some
        ],
    )  # fmt: skip


def _end(transaction: Row) -> datetime:
    """When a transaction that timed out was over."""
    end: datetime = transaction["time"] + timedelta(microseconds=transaction["open_ns"] // 1000)
    return end
