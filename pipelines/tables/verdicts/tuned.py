"""How clients are set up, and what they do by habit, as their requests, batches and connections show.

A habit is a client's, over however many connections: a client is an id and an address.
"""

from __future__ import annotations

from pipelines.sql.views import SomeRows
from pipelines.sql.words import HAS_REQUEST
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import (
    A_MINUTE,
    AHEAD_BATCHES,
    AHEAD_US,
    LEAKED,
    LEAKED_EXCHANGES,
    MANY,
    MOSTLY,
    MS,
    OLD_US,
    POLLS,
    POLLS_A_SECOND,
    SHORT_LIVED_NS,
    THROTTLED_MS,
    USELESS,
)  # fmt: skip
from pipelines.tables.verdicts.told import Told

# requests that only brokers send each other
_OF_BROKERS = (
    "LeaderAndIsr", "UpdateMetadata", "StopReplica", "ControlledShutdown", "BrokerRegistration", "AlterPartition",
)  # fmt: skip

_UNCONFIRMED = "protocol = 'kafka' and api = 'Produce' and kind = 'oneway'"
# messages of format 0 and 1 have no batch around them: those of one request and partition are one
_OLD = "format in ('magic 0', 'magic 1')"
_SET = "site, exchange_id, topic, partition"

_PLAIN = "role = 'produce' and format = 'magic 2' and producer is null"
_REMOVED = f"{HAS_REQUEST} and removed(protocol, api_code, version)"
_PACKED = "protocol = 'kafka' and codec <> 'none' and uncompressed_bytes > 0"
_BODY = "stored_bytes - case when format = 'magic 2' then 61 else 0 end"  # without the head, which is not compressed

# batches of one message, those of format 0 and 1 together; `every`: of clients most of whose batches hold one message
_SINGLE = f"""
    with sent as (
        select * from v_batches where role = 'produce' and format = 'magic 2'
        union all by name
        select * exclude (nth, together) replace (together as records) from (
            select *, row_number() over (partition by {_SET} order by stream_offset) as nth,
                sum(records) over (partition by {_SET}) as together
            from v_batches where role = 'produce' and {_OLD}
        ) where nth = 1
    ), senders as (
        select protocol, client, count(*) as n from sent group by all
        having n >= {MANY} and count(*) filter (records = 1) >= {MOSTLY} * n
    )
    select s.*, every from sent s semi join senders using (protocol, client)
        join (select protocol, sum(n)::bigint as every from senders group by all) using (protocol)
    where records = 1"""
_USELESS = f"""
    select * from v_batches where {_PACKED} and (protocol, client) in (
        select (protocol, client) from v_batches where {_PACKED} group by protocol, client
        having count(*) >= {MANY} and sum({_BODY}) >= {USELESS} * sum(uncompressed_bytes))"""

_PRODUCER = "site, connection, incarnation, producer, producer_epoch, topic, partition"
_IDEMPOTENT = "protocol = 'kafka' and role = 'produce' and producer is not null and base_sequence >= 0"
# batches with the sequence number of the one before; that one was refused where a client tries again
_SENT_AGAIN = f"""
    select * from (
        select *, lag(base_sequence) over same as before, lag(outcome) over same as outcome_before
        from v_batches where {_IDEMPOTENT} and ({_PRODUCER}) in (
            select ({_PRODUCER}) from batches where {_IDEMPOTENT}
            group by {_PRODUCER}, base_sequence having count(*) > 1)
        window same as (partition by {_PRODUCER} order by stream_offset)
    ) where base_sequence = before and outcome_before is distinct from 'error'"""

_FUTURE = f"role = 'produce' and epoch_us(max_timestamp) - epoch_us(time) >= {AHEAD_US}"
# batches from the future, of clients whose usual batch is from the future: a single one may have a time of its own
_AHEAD = f"""
    select *, epoch_us(max_timestamp) - epoch_us(time) as ahead_us from v_batches
    where {_FUTURE} and (site, client) in (
        select (site, client) from v_batches where role = 'produce' and epoch_us(max_timestamp) > 0
        group by site, client having count(*) >= {AHEAD_BATCHES}
            and quantile_disc(epoch_us(max_timestamp) - epoch_us(time), 0.5) >= {AHEAD_US})"""

_AGED = f"protocol = 'kafka' and role = 'produce' and epoch_us(time) - epoch_us(max_timestamp) >= {OLD_US}"
# the same, with whether the timestamp is of today if its milliseconds are taken for seconds
_PAST = f"""
    select *, max_timestamp < timestamptz '1971-01-01' and abs(epoch(time) - epoch_ms(max_timestamp)) < 86400 as seconds
    from v_batches where {_AGED}"""

_SHORT = f"""
    protocol is not null and handshake = 'full' and closed <> 'open' and duration_ns < {SHORT_LIVED_NS}"""
# short connections of clients that open more than A_MINUTE of them to one server within a minute
_OFTEN = f"""
    with short as (select * from v_connections where {_SHORT})
    select s.* from short s semi join (
        select site, client, server from short
        qualify count(*) over (partition by site, client, server order by time
            range between interval 59999999 microseconds preceding and current row) > {A_MINUTE}
    ) o on s.site = o.site and s.client = o.client and s.server = o.server"""
_LEFT_OPEN = "closed = 'open' and handshake = 'full'"
# connections that were hardly used, of clients that left many of them open
_LEAKED = f"""
    select n.* from v_connections n join (
        select site, connection, incarnation, count(*) as asked from exchanges group by all
    ) x using (site, connection, incarnation)
    where {_LEFT_OPEN} and asked <= {LEAKED_EXCHANGES}
    qualify count(*) over (partition by site, protocol, client, server) >= {LEAKED}"""

_POLL = "kind = 'call' and api in ('Fetch', 'POLL_MESSAGES')"
_EMPTY = f"{_POLL} and status = 'ok' and coalesce(records, 0) = 0 and not coalesce(long_poll, false)"
# polls of clients that nearly always get nothing, and at once, and ask again
_BUSY = f"""
    select c.*, asked, rate from (from v_calls where {_EMPTY}) c join (
        select site, client, server, count(*) as asked, count(*) filter ({_EMPTY}) as n,
            (n * 1000000 // greatest(epoch_us(max(time)) - epoch_us(min(time)), 1))::bigint as rate
        from v_calls where {_POLL} group by all
        having n >= {POLLS} and n >= {MOSTLY} * asked and rate >= {POLLS_A_SECOND}
    ) b using (site, client, server)"""

TUNED = (
    Told(
        SomeRows("v_calls", _EMPTY, least=POLLS), "busy_polling",
        "{who} asked {server} for messages {rate:times} a second: {count:number} of {asked:answer} came at "
        "once and had none{comma}{in_topics}.",
        _BUSY,
        by=("site", "protocol", "client", "server"),
        more="any_value(rate) as rate, any_value(asked) as asked",
    ),
    Told(
        SomeRows("v_calls", _UNCONFIRMED), "acks_zero",
        "{who} sent {count:request}{for_topics} with acks=0: brokers do not confirm these, so a loss goes unnoticed.",
        f"select * from v_calls where {_UNCONFIRMED}",
    ),
    Told(
        SomeRows("exchanges", _REMOVED), "removed_apis",
        "{who} sent {count:request} in API versions that brokers refuse since Kafka 4.0: {versions:names}.",
        f"select * from v_calls where {_REMOVED} and api not in {_OF_BROKERS}",
        more="names_of(api || ' v' || version) as versions",
    ),
    Told(
        SomeRows("batches", f"role = 'produce' and {_OLD}"), "old_message_format",
        "{messages:message} in {count:request} of {who}{for_topics} {messages:?has/have} format {versions:names}, "
        "which brokers must convert.",
        f"""
        select c.* replace (0 as cost_ns), b.messages, b.formats from v_calls c join (
            select site, exchange_id, sum(records) as messages,
                names_of(replace(format, 'magic ', '')) as formats
            from batches where role = 'produce' and {_OLD} group by all) b using (site, exchange_id)
        where c.api = 'Produce'""",
        more="saturated(sum(messages)) as messages, list_distinct(flatten(names_of(formats))) as versions",
    ),
    Told(
        SomeRows("batches", _PLAIN), "not_idempotent",
        "{count:batch} of {who}{for_topics} {count:?is/are} produced without idempotence: one that is retried may be "
        "written twice.",
        f"""
        select b.* from v_batches b
            anti join (select site, exchange_id from exchanges where kind = 'oneway') using (site, exchange_id)
        where {_PLAIN}""",
    ),
    Told(
        SomeRows("batches", "role = 'produce' and format like 'magic%' and records = 1", least=MANY * 9 // 10),
        "unbatched", "{count:number} of {every:batch} of {who}{for_topics} {count:?holds/hold} one message each.",
        _SINGLE,
        more="any_value(every) as every",
    ),
    Told(
        SomeRows("batches", _PACKED, least=MANY), "useless_compression",
        "Compression saves nothing in {count:batch} of {who}{for_topics}.",
        _USELESS,
    ),
    Told(
        SomeRows("batches", _IDEMPOTENT, least=2), "duplicate_sequence",
        "{who} sent {count:batch}{for_topics} again with the sequence number of the one before, and no refusal was "
        "seen.",
        _SENT_AGAIN,
        severity=NOTE,
    ),
    Told(
        SomeRows("errors", "api = 'ACK' and scope = 'message'"), "discarded",
        "{who} discarded {count:message}{for_topics} as damaged.",
        """
        select c.* from v_calls c
            semi join (select site, exchange_id from errors where api = 'ACK' and scope = 'message')
            using (site, exchange_id)""",
    ),
    Told(
        SomeRows("findings", "kind = 'retransmission_conflict'"), "conflicting_bytes",
        "Bytes were retransmitted with different values {count:times}, on connections of {who} to {servers:server}.",
        "select * from v_findings where kind = 'retransmission_conflict'",
    ),
    Told(
        SomeRows("batches", _FUTURE), "clock",
        "Timestamps of {count:batch} of {who} are {median_ns:ns} ahead of the capture's clock.",
        _AHEAD,
        more="quantile_disc(ahead_us, 0.5) * 1000 as median_ns",
    ),
    Told(
        SomeRows("batches", _AGED), "old_timestamps",
        "{count:batch} of {who}{for_topics} {count:?carries/carry} timestamps as old as {oldest}.",
        _PAST,
        by=("protocol", "seconds"),
        more="strftime(min(max_timestamp), '%Y-%m-%d') as oldest, if(seconds, 'warning', 'note') as severity, "
        "if(seconds, strftime(max(time), '%Y-%m-%d'), null) as meant, if(seconds, 'Let the producer give milliseconds: "
        "its seconds are read as days of January 1970, and topics that keep messages for a time delete them.', null) "
        "as advice",
        detail="Their numbers, taken for seconds, are times of {meant}.",
    ),
    Told(
        SomeRows("connections", _SHORT, least=A_MINUTE + 1), "connection_churn",
        "{who} opened {count:connection} to {servers:server}, each for {median_ns:ns} or so.",
        _OFTEN,
        more="quantile_disc(duration_ns, 0.5) as median_ns",
    ),
    Told(
        SomeRows("connections", f"{_LEFT_OPEN} and protocol is not null", least=LEAKED), "connection_leak",
        "{count:connection} of {who} to {servers:broker} were opened within {within_ns:ns}, hardly used, and never "
        "closed.",
        _LEAKED,
        by=("protocol", "client"),
        more="(epoch_us(max(until)) - epoch_us(min(time))) * 1000 as within_ns",
    ),
    Told(
        SomeRows("v_calls", f"throttle_ms >= {THROTTLED_MS}"), "throttled",
        "A quota of the broker throttled {who}: {count:times}, for {longest}.",
        f"select * replace (throttle_ms * {MS} as cost_ns) from v_calls where throttle_ms >= {THROTTLED_MS}",
        by=(),
        more=f"names_of(api) as apis, max(throttle_ms) * {MS} as longest_ns",
        detail="Answers to {apis} told them to wait (throttle_time_ms).",
    ),
)  # fmt: skip
