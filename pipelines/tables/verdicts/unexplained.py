"""What requests and connections met that no verdict before explains."""

from __future__ import annotations

from pipelines.sql.views import SomeRows
from pipelines.tables.table import CONNECTION
from pipelines.tables.verdicts.capture import MISMATCHED, Capture
from pipelines.tables.verdicts.kinds import WARNING
from pipelines.tables.verdicts.paths import FORGOTTEN
from pipelines.tables.verdicts.thresholds import A_MINUTE, OUTAGE_NS, POLLS_A_SECOND, RESETS, UNDERSTOOD, VOTES
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.unanswered import REFUSED_BYTES
from pipelines.tables.verdicts.verdict import first_of, sql_list

_CUT = "answer = 'cut'"

ANSWER_CUT = Told(
    SomeRows("v_calls", _CUT), "answer_cut",
    "{count:answer} to {asked} of {who} began and never ended: {closer} closed the connection in the midst of "
    "{count:?/up to }{largest:bytes}, after {longest}.",
    lambda capture: f"""
        select c.*, coalesce(n.closed_by, n.reset_by) as closed_by
        from v_calls c join connections n using (site, connection, incarnation)
        where {_CUT} and not {capture.explained()}""",
    by=("protocol", "api", "closed_by"),
    more=f"""
        coalesce(api, 'unknown requests') as asked, max(response_bytes) as largest, max(total_ns) as longest_ns,
        case closed_by when 'client' then 'the client' when 'server' then 'the broker' else 'somebody' end as closer,
        {first_of("response_bytes", "file", "packet")}""",
    detail="The first: {first[response_bytes]:bytes}, {first:place}. What was cut off did no work, whatever its error "
    "code.",
)  # fmt: skip
"""Answers that began and never ended, by API and by who closed."""

_IN_USE = "protocol is not null and frames > 0"
_RESET = f"reset_by is not null and {_IN_USE}"

CONNECTIONS_RESET = Told(
    SomeRows("connections", _RESET, least=RESETS), "connections_reset",
    "{count:number} of {known:connection} of {who} to {servers:broker} were reset within {within_ns:ns}, {whose}"
    "{idle_ns:, each after ~ns~ of silence or more}.",
    lambda capture: f"""
        select *, (select count(*) from connections where {_IN_USE}) as known
        from v_connections left join v_forgotten using (site, connection, incarnation)
        where {_RESET} and closed = 'reset' and not {capture.is_lost("server")}
            and (reset_by <> 'client' or (site, connection, incarnation) in (
                select (site, connection, incarnation) from exchanges
                where kind = 'unanswered' or answer in ('cut', 'late')))
            and (site, connection, incarnation) not in (  -- by a broker that refuses a request: `unanswered` tells it
                select (site, connection, incarnation) from findings
                where kind in {sql_list(REFUSED_BYTES)} and direction = 'client' and connection is not null)
        qualify count(*) over (partition by protocol) >= greatest({RESETS}, known / 4)""",
    more=f"""
        any_value(known) as known, (epoch_us(max(until)) - epoch_us(min(until))) * 1000 as within_ns,
        case when count(idle_ns) = count(*) then min(idle_ns) end as idle_ns,
        case when count(idle_ns) = count(*) then '{FORGOTTEN}' end as advice,
        case names_of(reset_by) when ['client'] then 'by the clients' when ['server'] then 'by the brokers'
            else 'in both directions: something between clients and brokers does it, or both ends at once' end
        as whose""",
)  # fmt: skip
"""Connections in use, none of a lost broker, that ended by a reset, by who sent it: many, and a quarter of all."""

_MINUTE = "range between interval 59999999 microseconds preceding and current row"
_LEADS = "protocol = 'kafka' and what = 'leader'"
_LEADERLESS = f"{_LEADS} and leader is null and partition is not null"
_LAGGING = f"{_LEADS} and leader is not null and len(isr) < len(replicas)"
# what answers say of the leaders of partitions of which one says a condition
_OF_PLACES = f"""
    select * from positions where {_LEADS} and (topic, partition) in (
        select (topic, partition) from positions where {{}})"""


def _lasting(state: str, rows: str, place: str = "topic, partition") -> str:
    """Rows of `positions` that say that `state` holds of a place, with how long it does there.

    The columns beside: run, 0 where nothing else was told before; ended, when something else was told, null where
    nothing was; began and seen, when it was told first and last.
    """
    return f"""(
        select *, max(time) over span as seen, min(time) over span as began
        from (
            select *, count(*) filter (not ({state})) over place as run, min(time) filter (not ({state})) over (
                place rows between current row and unbounded following) as ended
            from ({rows}) window place as (partition by {place} order by time, packet, exchange_id)
        ) where {state} window span as (partition by {place}, run))"""


NO_LEADER = Told(
    SomeRows("positions", _LEADERLESS), "no_leader",
    "{parts}{of_topics} had no leader for {places:?/up to }{longest_ns:ns}"
    "{unlisted:? on the listener that was asked/}, {until_when}: nobody could write there or read.",
    f"""
        select c.* replace ([s.topic] as topics, 0 as cost_ns), s.topic, s.partition, ended is null as lasts,
            (epoch_us(coalesce(ended, seen)) - epoch_us(began)) * 1000 as without_ns,
            bool_and(coalesce(error_name, '') = 'LISTENER_NOT_FOUND') over (
                partition by s.topic, s.partition) as unlisted
        from {_lasting("leader is null", _OF_PLACES.format(_LEADERLESS))} s
            join v_calls c on c.site = s.site and c.exchange_id = s.exchange_id
        where epoch_us(s.seen) - epoch_us(s.began) >= {OUTAGE_NS // 1000}""",
    by=("protocol", "lasts", "unlisted"),
    more="""
        max(without_ns) as longest_ns, number_of((topic, partition)) as places,
        if(unlisted, 'LISTENER_NOT_FOUND: the leader is there, but advertises no address on that listener. Compare '
            || 'listeners and advertised.listeners of all brokers.', null) as advice,
        if(places = 1, 'Partition ' || min(partition), places || ' partitions') as parts,
        case when lasts then 'until the end of the capture' when unlisted then 'until one was'
            else 'until one was elected' end as until_when,
        if(lasts, 'critical', 'warning') as severity""",
)  # fmt: skip
"""Partitions that answers name without a leader, for longer than an election takes."""


_VOTES = "api = 'Vote' and kind in ('call', 'unanswered')"
# what only a controller that leads answers without an error; a controller that cannot reach it asks for votes in vain
_LED = "status = 'ok' and (api = 'BrokerHeartbeat' or api = 'Fetch' and list_contains(topics, '__cluster_metadata'))"

NO_CONTROLLER = Told(
    SomeRows("exchanges", _VOTES, least=VOTES), "no_leader",
    "{who} asked {servers:server} for votes {count:times} within {within_ns:ns}: the controllers agreed on no leader, "
    "or on none for long.",
    f"""
        select * replace (0 as cost_ns) from (
            select *, count(*) over (partition by site, client, server order by time {_MINUTE}) as within
            from v_calls v where {_VOTES} and not exists (
                from exchanges l where {_LED} and l.time between v.time - to_seconds(2) and v.time + to_seconds(2))
        ) qualify max(within) over (partition by site, client, server) >= {VOTES}""",
    more="(epoch_us(max(until)) - epoch_us(min(time))) * 1000 as within_ns",
    severity=WARNING,
    advice="Look at the controllers and the network between them: without a leader, no topic, leader of a partition or "
    "setting can change.",
)  # fmt: skip
"""Controllers of Kafka that ask each other for votes again and again."""


def _out_of_sync(capture: Capture) -> str:
    """One row for each answer and broker that lags by it, with what is known of all partitions where that broker does.

    Those of partitions where a later answer says that it caught up are told apart: `lasts` is false.
    """
    held = f"select *, unnest(replicas) as broker from ({_OF_PLACES.format(_LAGGING)}) where isr is not null"
    return f"""
        with spans as (
            select *, ended is null as lasts
            from {_lasting("not list_contains(isr, broker)", held, "topic, partition, broker")}
            where ended is null or epoch_us(ended) - epoch_us(began) >= {OUTAGE_NS // 1000}
        ), brokers as (
            select number::varchar as broker, case when number_of(subject) = 1 then min(subject) end as address
            from events where kind = 'advertised' group by all
        ), told as (
            select site, exchange_id, broker, lasts, list_distinct(list(topic)) as topics, min(began) as began,
                max(seen) as seen, max(ended) as ended, bool_and(run > 0) as seen_before, min(len(isr)) as least,
                any_value(of_partitions) as of_partitions, max(len(replicas)) as of_replicas
            from (select *, count(distinct (topic, partition)) over (partition by broker, lasts) as of_partitions
                from spans) group by all
        )
        select c.* replace (t.topics as topics, 0 as cost_ns, coalesce(address, server) as server),
            t.* exclude (site, exchange_id, topics), address,
            {capture.is_lost("address")} as lost
        from told t join v_calls c using (site, exchange_id) left join brokers using (broker)"""


OUT_OF_SYNC = Told(
    SomeRows("positions", _LAGGING), "out_of_sync",
    "Broker {broker}{address} {lasts:?is/was} out of sync for {of_partitions:partition}{in_topics} "
    "since {since:clock}{or_before}{until}: at worst {least} of {of_replicas:replica} in sync.",
    _out_of_sync,
    by=("protocol", "broker", "lasts"),
    more=f"""
        coalesce(' (' || any_value(address) || ')', '') as address, any_value(of_partitions) as of_partitions,
        min(began) as since, case when bool_and(seen_before) then '' else ' or before' end as or_before,
        coalesce(strftime(max(ended) at time zone 'UTC', ', until %H:%M:%S'), '') as until,
        min(least) as least, max(of_replicas) as of_replicas,
        case when not lasts or bool_or(lost) or not bool_and(seen_before)
            or epoch_us(max(seen)) - epoch_us(min(began)) < {OUTAGE_NS // 1000} then 'note' end as severity,
        case when not lasts then 'Nothing: it caught up.' end as advice""",
)  # fmt: skip
"""Brokers that hold partitions and are not in sync with their leaders.

A warning where one was in sync before, is not at the end, and was not lost: that is a verdict of its own.
"""

_LOOKUPS = (
    "Metadata", "FindCoordinator", "ApiVersions", "DescribeTopicPartitions", "LOOKUP", "PARTITIONED_METADATA",
    "GET_TOPICS_OF_NAMESPACE", "GET_CLUSTER_METADATA",
)  # fmt: skip
_GETS = (  # of Iggy; those who watch a server ask once a second
    "GET_STATS", "GET_STREAM", "GET_STREAMS", "GET_TOPIC", "GET_TOPICS", "GET_CLIENTS", "GET_CONSUMER_GROUP",
    "GET_CONSUMER_GROUPS",
)  # fmt: skip
_RETRIED = ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS")  # clients ask until there is one
_ASKED = f"""
    kind in ('call', 'unanswered') and api in {sql_list((*_LOOKUPS, *_GETS))}
        and coalesce(error_name, '') not in {sql_list(_RETRIED)}"""

METADATA_STORM = Told(
    SomeRows("v_calls", _ASKED, least=A_MINUTE), "metadata_storm",
    "{who} sent {api}{for_topics} {count:times}, "
    f"{A_MINUTE} or more of them within a minute on one connection.",
    lambda capture: f"""
        select c.* from v_calls c semi join (
            select site, connection, incarnation, api, topics from (
                select *, count(*) over (
                    partition by site, connection, incarnation, api, topics order by time {_MINUTE}) as within
                from v_calls where {_ASKED} and not {capture.explained()}
            ) where within >= if(api in {sql_list(_GETS)}, {60 * POLLS_A_SECOND}, {A_MINUTE})
        ) often on c.site = often.site and c.connection = often.connection and c.incarnation = often.incarnation
            and c.api = often.api and c.topics is not distinct from often.topics""",
    by=("protocol", "api"),
    more=f"if(api in {sql_list(_GETS)}, 'Let it ask less often: each answer is work for the server.', null) as advice",
)  # fmt: skip
"""Connections that ask where something is again and again."""

_UNREAD = f"""
    protocol is not null and "foreign" is null and handshake <> 'none' and coalesce(skipped_bytes, 0) > 0
        and framed_bytes < {UNDERSTOOD} * (framed_bytes + skipped_bytes + coalesce(pending_bytes, 0))"""

NOT_UNDERSTOOD = Told(
    SomeRows("connections", _UNREAD), "not_understood",
    "{unread:bytes} on {count:connection} could not be decoded as {protocol} frames, though nothing is missing.",
    lambda capture: f"""
        select c.* from v_connections c semi join v_whole using (site, connection, incarnation)
            anti join (from events where kind = 'misframed') using (site, connection, incarnation)
        where {_UNREAD} and not {capture.kept(MISMATCHED, CONNECTION, "c")}""",
    more="saturated(sum(skipped_bytes::hugeint + pending_bytes)) as unread",
)  # fmt: skip
"""Whole connections in which frames were not found."""
