"""Transactions that producers gave up."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together

# an EndTxn that gave its transaction up, the messages of its producer since the one before, and whether the capture
# lacks bytes of requests that carried some
_ABORTED = """
    select f.*, (
            select sum(records) from batches b
            where b.role = 'produce' and b.transactional and not coalesce(b.control, false)
                and b.producer = f.producer_id and b.time < f.until and b.time > coalesce(before, to_timestamp(0))
        ) as messages, exists (
            select * from v_calls c
            where c.api = 'Produce' and not c.complete and c.client = f.client
                and c.time < f.until and c.time > coalesce(before, to_timestamp(0))
        ) as cut
    from (
        select *, subject as id, number::varchar as producer_id, (
                select max(until) from v_calls c where c.api = 'EndTxn' and c.client = v.client and c.until < v.until
            ) as before
        from v_noted v where event = 'transaction_aborted' and api = 'EndTxn'
    ) f"""
# transactions that these clients ended, either way
_ENDED = """
    select client, count(*) as count from v_calls
    where api = 'EndTxn' and status = 'ok'
        and client in (select client from v_noted where event = 'transaction_aborted')
    group by client"""


@needs(SomeRows("events", "kind = 'transaction_aborted'"))
def transactions_aborted(capture: Capture) -> Iterator[Ruling]:
    """Of each transactional id, the transactions that it gave up."""
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
