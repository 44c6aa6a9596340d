"""Who has what a client of Pulsar was refused because another one has it, and what a full backlog waits for."""

from __future__ import annotations

from pipelines.formats import who
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.advice import AT_LIMIT
from pipelines.tables.verdicts.capture import PLACE, Capture
from pipelines.tables.verdicts.verdict import Row, sql_list

QUOTA = "ProducerBlockedQuota"
"""How names of errors begin by which a broker refuses producers of a topic whose backlog is over its quota."""
_THERE = f"""
    select client, min(until) as since from v_calls c join v_ends using ({PLACE})
    where kind = 'call' and status = 'ok' and list_has_any(topics, list_value{{topics}}) and exists (
            select 1 from exchanges f where f.api = c.api and f.error_name = '{{cause}}'
                and list_has_any(f.topics, c.topics) and f.{{same}} = c.{{same}})
        and epoch_us(until) < {{at_us}} and epoch_us(end_time) > {{at_us}} and not exists (
            select 1 from exchanges x where x.api in ('CLOSE_CONSUMER', 'CLOSE_PRODUCER', 'UNSUBSCRIBE')
                and x.site = c.site and x.connection = c.connection and x.incarnation = c.incarnation
                and x.client_id is not distinct from c.client_id and list_has_any(x.topics, c.topics)
                and x.time > c.until and epoch_us(x.time) < {{at_us}})
    group by client order by client"""
"""Clients that were let in before, and that were there still: on connections that were open, and not closed by name."""


def taken_by(capture: Capture, row: Row) -> str:
    """`, as n-1 on 10.0.3.1 has held subscription s since 03:00:00`; nothing where the capture shows nobody."""
    same = {"ConsumerBusy": '"group"', "ProducerBusy": "client_id"}.get(row["cause"] or "")
    if same is None or AT_LIMIT in (row["message"] or ""):
        return ""
    what = say.named(row["groups"], "subscription") if same == '"group"' else "that name"
    at_us, topics = say.micros(row["first_time"]), sql_list(row["topics"] or [""])
    there = capture.rows(_THERE.format(topics=topics, cause=row["cause"], same=same, at_us=at_us))
    if not there:
        return ""
    clients, since = who.of([one["client"] for one in there]), say.micros(min(one["since"] for one in there))
    return f", as {say.clients(clients)} {say.verb(clients, 'has', 'have')} held {what} since {say.clock(since)}"


def backlog_of(capture: Capture, row: Row) -> str | None:
    """What to do about a backlog over its quota, where a verdict says which subscriptions have one."""
    behind = (one.rows for one in capture.told if one.kind == "consumer_behind")
    groups = {group for rows in behind if set(rows["topics"]) & set(row["topics"]) for group in rows["groups"]}
    if not (row["cause"] or "").startswith(QUOTA) or not groups:
        return None
    return f"See why {say.named(sorted(groups), 'subscription')} acknowledged too little: a backlog is over its quota."
