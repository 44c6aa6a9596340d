"""Transactions that producers gave up, or that the coordinator aborted as they were open for too long."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import datetime, timedelta

from dissectors.kafka.errors import error
from pipelines.formats import who
from pipelines.tables.transactions import ENDED_BY_COORDINATOR
from pipelines.tables.verdicts import impact, say
from pipelines.tables.verdicts.capture import HEARD, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import REFUSED
from pipelines.tables.verdicts.thresholds import LISTED
from pipelines.tables.verdicts.verdict import Row, Ruling, sql_list, together

# an EndTxn that gave its transaction up, the messages of its producer since the one before, and whether the capture
# lacks bytes of requests that carried some
_ABORTED = """
    with ended as (
        select client, until from v_calls where api = 'EndTxn'
    ), aborted as (
        select *, subject as id, number::varchar as producer_id, coalesce((
                select max(until) from ended e where e.client = v.client and e.until < v.until
            ), to_timestamp(0)) as before
        from v_noted v where event = 'transaction_aborted' and api = 'EndTxn'
    ), incomplete as (
        select client, time from v_calls where api = 'Produce' and not complete
    )
    select a.*, (
            select sum(records) from batches b
            where b.role = 'produce' and b.transactional and not coalesce(b.control, false)
                and b.producer = a.producer_id and b.time < a.until and b.time > before
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
    for row in capture.rows(together(_ABORTED, ["protocol", "id"], sums)):
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


# requests by whose errors a producer heard that its transaction had timed out, or at which that is certain
_HEARD = f"""
    select site, exchange_id from v_calls c
    where (request_file, request_packet) = {{place}} or (response_file, response_packet) = {{place}}
    union select site, exchange_id from v_errors e
    where name in {sql_list([error(code).name for code in ENDED_BY_COORDINATOR])}
        and coalesce(client_id, client_ip) = {{client}} and epoch_us(time) >= {{over_us}}
        and not exists (
            select 1 from events b where b.kind = 'transaction_began' and b.subject = {{name}}
                and epoch_us(b.time) >= {{over_us}} and b.time < e.time)"""


def _timed_out(capture: Capture) -> Iterator[Ruling]:
    """Of each transactional id and client, those that the coordinator aborted; what is counted is kept as HEARD."""
    alike: dict[tuple[str, str], list[Row]] = defaultdict(list)
    for one in capture.timed_out:
        alike[one["transaction"], one["client"]].append(one)
    heard = {
        key: " union ".join(
            _HEARD.format(
                place=f"({say.literal(one['file'])}, {one['packet']})", client=say.literal(one["client"]),
                over_us=say.micros(_end(one)), name=say.literal(one["transaction"]),
            )
            for one in some
        )
        for key, some in alike.items()
    }  # fmt: skip
    if heard:
        capture.keep(HEARD, " union ".join(heard.values()))
    for key, some in alike.items():
        requests = (
            f"select * from v_calls where (site, exchange_id) in (select (site, exchange_id) from ({heard[key]}))"
        )
        for row in capture.rows(together(requests)):
            yield _told(some, row)


def _told(some: list[Row], row: Row) -> Ruling:
    """The verdict on transactions of one id and client that timed out. row: the requests that showed it."""
    first, messages = some[0], sum(one["records"] for one in some)
    name, allowed = first["transaction"], say.span(first["allowed_ns"])
    lost = f", with {say.counted(messages, 'message')}" if messages else ""
    one_of_them = len(some) == 1
    what = f"transaction {name}" if one_of_them else f"{len(some)} transactions of {name}"
    hosts = who.addresses(row["clients"])
    of = {
        "protocol": row["protocol"], "client_ip": hosts[0] if len(hosts) == 1 else None, "client_id": first["client"],
        "transaction": name, "evidence": row["evidence"],
    }  # fmt: skip
    return Ruling(
        "transactions_aborted",
        f"{say.clients(row)} did not end {what} in time: the coordinator aborted "
        f"{'it after its' if one_of_them else 'them after their'} time-out of {allowed}{lost}.",
        row | {"topics": sorted({*row["topics"], *(topic for one in some for topic in one["topics"])})[:LISTED]},
        f"The first began at {say.clock(say.micros(first['time']))}; what shows its end is "
        f"{say.place(first['file'], first['packet'])}.",
        advice="End transactions sooner, make them smaller, or raise transaction.timeout.ms. What was aborted has to "
        "be produced again.",
        work=[
            impact.impact(
                REFUSED, of, **{"from": one["time"], "until": _end(one)}, messages=one["records"],
                topic=one["topics"][0] if len(one["topics"]) == 1 else None, time_ns=one["open_ns"],
            )
            for one in some
        ],
    )  # fmt: skip


def _end(transaction: Row) -> datetime:
    """When a transaction that timed out was over."""
    end: datetime = transaction["time"] + timedelta(microseconds=transaction["open_ns"] // 1000)
    return end
