"""What frames, batches, groups and connections show by themselves, without what else happened."""

from __future__ import annotations

from pipelines.sql.views import SomeRows
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import STOPPED_US, reached_by
from pipelines.tables.verdicts.capture import PLACE
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import (
    A_MINUTE,
    BEGUN_AGAIN,
    ENOUGH,
    KEEP_ALIVE_NS,
    LOST_SHARE,
    MANY,
    PAUSE_NS,
    STUCK,
    TURNS,
)  # fmt: skip
from pipelines.tables.verdicts.told import Told

# --- batches ---

_ODD_KINDS = """
    kind in ('batch_mismatch', 'decompress_failed') or (kind = 'malformed_frame' and message like 'Records are not%')"""
# findings that say that a batch is not what its head says, though its checksum holds: each with the topic of the batch
# that it is about, or else the only one of its exchange, and with the broker's answer
_ODD = f"""
    with odd as (select * exclude (topics) from v_findings where {_ODD_KINDS}
    ), carried as (
        select {PLACE}, 'client' as direction, request_file as file, request_packet as packet, topics, error_name
        from exchanges where ({PLACE}) in (select ({PLACE}) from odd)
        union all
        select {PLACE}, 'server', response_file, response_packet, topics, null
        from exchanges where ({PLACE}) in (select ({PLACE}) from odd)
    ), told as (
        select f.*, (
                select max(topic) from batches b where b.site = f.site and b.file = f.file and b.packet = f.packet
                    and b.stream_offset = f.stream_offset) as of_batch,
            (
                select {{'topic': max(case when len(topics) = 1 then topics[1] end), 'error': max(error_name)}}
                from carried x
                where x.site = f.site and x.connection = f.connection and x.incarnation = f.incarnation
                    and x.direction = f.direction and x.file = f.file and x.packet = f.packet) as x
        from odd f
    )
    select * exclude (of_batch, x), coalesce(of_batch, x.topic) as topic, x.error as error_name,
        case when coalesce(of_batch, x.topic) is null then [] else [coalesce(of_batch, x.topic)] end as topics
    from told"""

# exchanges with messages that do not fit their schema, by topic and schema: those that brought them, or, where none was
# captured, those that fetched them; with all that their clients wrote to the topic, or read from it, before and since
_UNFIT = """
    with said as (
        select site, exchange_id, topic, subject, direction = 'client' as written, count(*) as unfit,
            arg_min(text, number) as text
        from v_events where kind = 'misfit' and topic is not null group by all
    ), unfit as (
        select c.* replace ([topic] as topics, 0 as cost_ns), topic, subject, written, unfit, text,
            min(time) over (partition by protocol, topic, subject, written) as since
        from said join v_calls c using (site, exchange_id)
        qualify written or not bool_or(written) over (partition by protocol, topic, subject)
    ), carried as (
        select protocol, topic, subject, saturated(sum(records) filter (time < since)) as before,
            saturated(sum(records) filter (time >= since)) as among
        from (select distinct protocol, topic, subject, client, written, since from unfit)
            join (select protocol, topic, client, role = 'produce' as written, time, records from v_batches)
            using (protocol, topic, client, written)
        group by all
    )
    select * from unfit left join carried using (protocol, topic, subject)"""

# Pulsar's clients send a message that was redelivered too often to TOPIC-SUBSCRIPTION-DLQ, or to a topic of another
# name by a producer whose name ends so; those to be tried again later go to TOPIC-SUBSCRIPTION-RETRY. Frameworks over
# Kafka name such topics .DLT (Spring), .DLQ or -dlq, and the others -retry or -retry-0.
_KEPT = "role = 'produce' and outcome is distinct from 'error' and not coalesce(control, false)"
_DEAD = rf"""{_KEPT} and (regexp_matches(topic, '[-._](DLQ|DLT|dlq|dlt|dead[-_]?letters?)$')
    or (protocol = 'pulsar' and coalesce(producer like '%-DLQ', false)))"""
_RETRIED = rf"""{_KEPT} and not coalesce(producer like '%-DLQ', false)
    and (protocol = 'pulsar' and topic like '%-RETRY' or regexp_matches(topic, '[-._]retry([-._][0-9]+)?$'))"""

_BROUGHT_NOTHING = "api = 'Fetch' and kind = 'call' and complete and payload_bytes > 0 and coalesce(records, 0) = 0"
# fetches whose answer has bytes and no batch, by the partition and offset that the connection asked for last
_STUCK = f"""
    select * from (
        select *, count(*) over (partition by {PLACE}, name, partition, position) as times from (
            select c.*, p.topic as name, p.partition, p.value as position
            from v_calls c anti join batches b on b.site = c.site and b.exchange_id = c.exchange_id
                anti join findings f on f.site = c.site and f.file = c.response_file and f.packet = c.response_packet
                    and f.kind in ('malformed_frame', 'decompress_failed')
                join positions p on p.site = c.site and p.connection = c.connection and p.incarnation = c.incarnation
                    and p.what = 'fetch' and p.time <= c.time and list_contains(coalesce(c.topics, []), p.topic)
            where {_BROUGHT_NOTHING.replace("api", "c.api", 1).replace("kind", "c.kind", 1)}
            qualify p.time = max(p.time) over (partition by c.site, c.exchange_id, p.topic, p.partition)
        )
    ) where times >= {STUCK}"""

# --- groups ---

# a clock that was set back tells no order: from then on packets do, until it is as late again
_IN_ORDER = "order by at_us + set_back_us, file, packet, number"
# exchanges by which a group committed a smaller offset than before, once for each partition; those of a topic made anew
# begin at 0 again, and where commits at each of two coordinators go on from their own these are two clusters
_BACK = f"""
    with commits as (
        select *, lag(number) over there as before_there, lead(number) over there as then_there
        from v_reached join (
            select site, exchange_id, file, packet, server as coordinator,
                max(epoch_us(time)) over (partition by file order by packet) - epoch_us(time) as set_back_us
            from v_calls semi join v_reached using (site, exchange_id)
        ) using (site, exchange_id) where api <> 'OffsetFetch' and api <> 'GET_CONSUMER_OFFSET'
        window there as (partition by protocol, topic, part, owner, coordinator {_IN_ORDER})
    ), steps as (
        select *, lag(number) over anywhere as before, lag(at_us) over anywhere as before_us,
            lag(coordinator) over anywhere as coordinator_before, lag(then_there) over anywhere as then_there_before
        from commits window anywhere as (partition by protocol, topic, part, owner {_IN_ORDER})
    )
    select x.* exclude (topics, "group"), owner as "group", [topic] as topics, topic, part, before - number as messages
    from steps join v_calls x using (site, exchange_id)
    where number < before and (coordinator = coordinator_before
            or coalesce(then_there_before < before, true) and coalesce(number < before_there, true))
        and not exists (
            select 1 from v_emptied e where e.topic = steps.topic and epoch_us(e.time) between before_us and at_us)"""
# polls of Iggy, for who reads a partition, from the last one that found messages on, where the partition grew since
_EMPTY = f"""
    with polls as (
        select x.* exclude (topics), p.reader, p.topic, [p.topic] as topics, p.partition, p.value,
            max(x.time) filter (records > 0) over (partition by p.reader, p.topic, p.partition) as found
        from (select *, {reached_by(DuckDB())} as reader from positions) p
            join v_calls x on x.site = p.site and x.exchange_id = p.exchange_id
        where p.protocol = 'iggy' and p.what = 'high_watermark' and x.api like 'POLL_MESSAGES%'
    ), since as (
        select *, value - min(value) over (partition by reader, topic, partition) as came
        from polls where coalesce(time > found, true)
    )
    select * from since window reader as (partition by reader, topic, partition)
    qualify max(time) over reader - min(case when came > 0 then time end) over reader > to_microseconds({STOPPED_US})"""
# polls of Iggy in a row that begin at one offset: `waiting`, what came behind the last message that they got
_SAME = f"""
    with told as (
        select *, {reached_by(DuckDB())} as reader from positions where protocol = 'iggy'
    ), polls as (
        select x.* exclude (topics), p.owner as reader, p.topic, [p.topic] as topics, p.partition, p.value,
            p.base as first, p.last, lag(p.base) over (
                partition by x.site, x.connection, x.incarnation, p.owner, p.topic, p.partition
                order by x.time, x.packet) as before
        from v_polled p join v_calls x on x.site = p.site and x.exchange_id = p.exchange_id
        where x.api like 'POLL_MESSAGES%'
    ), runs as (
        select *, count(*) filter (first <> before) over (
            partition by {PLACE}, reader, topic, partition order by time, packet) as run
        from polls
    )
    select * from (
        select *, count(*) over same as polls, max(value) over same - max(last) over same - 1 as waiting,
            min(time) over same as since, max(time) over same as till
        from runs window same as (partition by {PLACE}, reader, topic, partition, run)
    ) r where polls >= {BEGUN_AGAIN} and till - since >= to_microseconds({STOPPED_US})  -- some store every few seconds
        and (waiting > 0 or "group" is not null) and not exists (
        select 1 from told t where t.what = 'committed' and t.reader = r.reader and t.topic = r.topic
            and t.partition = r.partition and t.value > r.first and t.time between since and till)"""
# requests by which clients that read beside each other stored one offset: of a consumer of Iggy that is in no group, or
# of a group of Kafka without members
_BY_TURNS = f"""
    with alone as (
        select *, {reached_by(DuckDB())} as reader from positions
        where what = 'committed' and api in ('POLL_MESSAGES', 'STORE_CONSUMER_OFFSET', 'OffsetCommit')
            and case protocol when 'iggy' then "group" is null and consumer is not null
                else "group" not in (select "group" from exchanges where api <> 'OffsetCommit'
                    and api <> 'OffsetFetch' and api <> 'FindCoordinator' and "group" is not null) end
    ), stored as (
        select x.* exclude (topics), [p.topic] as topics, p.topic, p.reader,
            lag(x.client) over (
                partition by x.site, x.server, p.reader, p.topic, p.partition order by x.time, x.packet) as before
        from alone p join v_calls x on x.site = p.site and x.exchange_id = p.exchange_id
    )
    select *, if(protocol = 'iggy', 'each gets a part of the messages', 'a restart goes on where another stood') as so
    from stored where (topic, reader) in (
        select (topic, reader) from stored group by topic, reader
        having count(*) filter (client <> before) >= {TURNS} + number_of(({PLACE})) and number_of(client) > 1)"""
# polls by which members of a group of Iggy found nothing, each while others found messages, by topic, where these came
# from fewer partitions than there are members
_IDLE = f"""
    with polls as (
        select *, topics[1] as topic, ({PLACE}) as member, records as got from v_calls
        where api like 'POLL_MESSAGES%' and status = 'ok' and "group" is not null
    ), members as (
        select "group", topic, member, sum(got) as got, min(time) as since, max(time) as till
        from polls group by all
    ), idle as (
        select m."group", m.topic, m.member from members m join polls o on o."group" = m."group" and o.topic = m.topic
            and o.time between m.since and m.till
        where m.got = 0 group by all
        having count(*) filter (o.got > 0) >= {MANY} and count(*) filter (o.member = m.member) >= {MANY}
    ), beside as (  -- members at once: each new connection of a client is one
        select m."group", m.topic, any_value(m.got) as got, count(*) as members, count(i.member) as idle
        from members m join members o
            on o."group" = m."group" and o.topic = m.topic and m.since between o.since and o.till
            left join idle i on i."group" = o."group" and i.topic = o.topic and i.member = o.member
        group by m."group", m.topic, m.member
    ), groups as (
        select "group", topic, max(members) as members, max(idle) as idle, saturated(sum(got)) as messages from beside
        group by all
    ), read as (
        select "group", topic, number_of(partition) as parts from batches
        where protocol = 'iggy' and role = 'consume' group by all
    )
    select p.*, members, g.idle, messages, parts from polls p semi join idle using ("group", topic, member)
        join groups g using ("group", topic) join read using ("group", topic)
    where members > parts"""
_JOINS = "api = 'JOIN_CONSUMER_GROUP' and kind = 'call' and status = 'ok'"
# what was sent to partitions that nobody reads, since others of their topic are read; groups of Kafka read all
_UNREAD = """
    with readers as (
        select protocol, topic, partition, min(time) as since from positions
        where partition is not null and (what in ('permits', 'committed') and protocol <> 'kafka'
            or what = 'high_watermark' and protocol = 'iggy')
        group by all
    )
    select b.* from v_batches b join (
            select protocol, topic, min(since) as since from readers group by all
        ) r on r.protocol = b.protocol and r.topic = b.topic and b.time > r.since
        anti join readers p on p.protocol = b.protocol and p.topic = b.topic and p.partition = b.partition
    where b.role = 'produce' and b.outcome = 'ok' and b.partition is not null"""
# requests of share groups that release or reject messages, or get some again, each with how many
_REFUSED = """
    select c.*, released, rejected, again, delivered from v_calls c join (
        select site, exchange_id, sum(number) filter (kind = 'released') as released,
            sum(number) filter (kind = 'rejected') as rejected, sum(number) filter (kind = 'delivered_again') as again
        from events where kind in ('released', 'rejected', 'delivered_again') group by all) using (site, exchange_id)
    left join (
        select "group", sum(records) as delivered from exchanges where api = 'ShareFetch' group by all
    ) d on d."group" is not distinct from c."group\""""
_USUAL = "ASSIGNMENT_DELAYED"  # how a group begins
# what members are told in a status that is no error (Kafka Streams, KIP-1071), and when one heard that this is over
_STATUS = f"""
    select t.*, rtrim(text, '.') as told, (
            select min(w.time) from v_noted w
            where w.event = 'status' and w.text is null and w."group" = t."group" and w.time > t.time
        ) as over
    from v_noted t where event = 'status' and text is not null and not starts_with(text, '{_USUAL}')"""

# --- connections ---

# PINGs without an answer on whole connections, and how long that was until these were closed
_PINGS = f"""
    select * from (
        select x.* replace ((epoch_us(n.end_time) - epoch_us(x.time)) * 1000 as cost_ns), n.closed_by,
            case when row_number() over (partition by {PLACE} order by x.time) = 1 then u.others end as others
        from v_calls x semi join v_whole using ({PLACE}) join connections n using ({PLACE})
            left join (
                select {PLACE}, count(*) as others from exchanges where kind = 'unanswered' and api <> 'PING'
                group by all
            ) u using ({PLACE})
        where x.api = 'PING' and x.kind = 'unanswered' and (n.closed <> 'open' or n.closed_by is not null)
    ) where cost_ns >= {KEEP_ALIVE_NS}"""
_PINGED = SomeRows("exchanges", "api = 'PING' and kind = 'unanswered'")
_CLOSER = """
    number_of((connection, incarnation)) as connections, case when sum(others) > 0
        then ', nor had ' || sum(others) || ' other request' || if(sum(others) > 1, 's', '') else '' end as beside,
    max(cost_ns) as longest_ns, case when number_of(closed_by) = 1 then case min(closed_by)
        when 'client' then 'by the client ' when 'server' then 'by the broker ' when 'both' then 'by both sides '
        else '' end else '' end as closer"""
_HTTP = "\"foreign\" = 'http'"
_STRANGE = f"""
    select * from v_connections where {_HTTP} and (protocol is not null or server in (from v_spoken))
        and (server_bytes > 0 and coalesce(frames, 0) > 0) is"""
_SEALED = """
    tls and protocol is null and client_bytes > 0 and server_bytes > 0 and "foreign" is null"""
_ONE_WAY = """
    protocol is not null and (coalesce(client_packets, 0) = 0) <> (coalesce(server_packets, 0) = 0)"""
# opened, and whole, to a server where others speak TLS, or do not
_USED = "handshake = 'full' and client_bytes > 0 and closed <> 'open'"
_SEEN = f"""
    select c.*, o.tls_there, o.plain_there
    from v_connections c semi join v_whole using ({PLACE})
    join (
        select site, server_ip, server_port, bool_or(tls and server_bytes > 0) as tls_there,
            bool_or(tls is not true and protocol is not null and framed_bytes > client_bytes) as plain_there
        from connections group by all
    ) o using (site, server_ip, server_port)
    where {_USED} and c.server in (from v_spoken)"""
_UNHEARD = "(tls and server_bytes = 0)"
_ALERTED = "(tls is not true and frames > 0 and framed_bytes <= client_bytes and server_bytes > 0)"
_ALERT = 7  # bytes of a TLS alert, with which a TLS server ends a connection that is none
_GAPS = f"""
    with pauses as (
        select time, max(until) over (order by time rows between unbounded preceding and 1 preceding) as since
        from v_calls
    ), longest as (
        select max_by(since, time - since) as silent_from, max_by(time, time - since) as silent_to from pauses
        having epoch_us(silent_to) - epoch_us(silent_from) >= {PAUSE_NS // 1000}
    ), missed as (  -- a pause of the capture: most of what it lacks shows as it goes on
        select any_value(silent_from) as silent_from, any_value(silent_to) as silent_to
        from findings cross join longest where kind = 'gap'
        having 2 * count(*) filter (epoch_us(time) - epoch_us(silent_to) between 0 and {PAUSE_NS // 1000}) >= count(*)
    ), half as (  -- of the servers' direction, which some mirror ports lose by themselves
        select any_value(last_answer) as last_answer
        from v_calls cross join (select max(until) as last_answer from v_calls where kind = 'call')
        where kind = 'unanswered' and time > last_answer having count(*) >= {ENOUGH}
    )
    select * from (
        select *, gap_bytes::double / (sum(gap_bytes) over () + coalesce(captured, 0)) as share from v_connections
            cross join (
                select saturated(sum(client_bytes::hugeint + server_bytes)) as captured
                from connections where protocol is not null)
            left join missed on true left join half on true
        where gap_bytes > 0)"""
_BROKEN = "select *, subject as rule from v_noted where event = 'rule_broken' and direction"

SHOWN = (
    Told(
        SomeRows("batches", "verdict = 'bad'"), "bad_checksum",
        "{count:number} of {verified:checksum} {count:?is/are} wrong{comma}{in_topics}.",
        "select * from v_batches where verdict = 'bad'",
        more="(select count(*) from batches where verdict in ('ok', 'bad')) as verified, "
        "count(*) filter (outcome = 'error') as refused",
        detail="The receiver refused {refused:batch} of these.",
    ),
    Told(
        SomeRows("findings", _ODD_KINDS), "malformed_batches",
        "{count:batch} of {who}{in_topics} {count:?is/are} malformed.",
        _ODD,
        by=("protocol", "topic"),
        more="arg_min(message, row(time, file, packet)) as message, "
        "coalesce(' The broker answered ' || max(error_name) || '.', '') as answer",
        detail="The first: {message}.{answer}",
    ),
    Told(
        SomeRows("events", "kind = 'misfit'"), "schema_left",
        "{messages:number} of {among:message} that {who} {wrote} topic {topic:topic} since {since:clock} "
        "{messages:?does/do} not fit {subject}.",
        _UNFIT,
        by=("protocol", "topic", "subject"),
        more="min(since) as since, saturated(sum(unfit)) as messages, greatest(any_value(among), messages) as among, "
        "coalesce(' None of the ' || nullif(any_value(before), 0) || ' before it was unfit.', '') as before, "
        "arg_min(text, row(time, file, packet)) as first, "
        "case when bool_or(written) then 'wrote to' else 'read from' end as wrote",
        detail="The first: {first}.{before}",
    ),
    Told(
        SomeRows("batches", _DEAD), "dead_lettered",
        "{messages:message/was/were} given up and sent to dead letter topic {topic:topic}.",
        f"select * from v_batches where {_DEAD}",
        by=("protocol", "topic"),
        more="saturated(sum(records)) as messages",
        severity=WARNING,
    ),
    Told(
        SomeRows("batches", _RETRIED), "dead_lettered",
        "{messages:message/was/were} sent to {topic:topic} to be tried again later, each as often as it failed.",
        f"select * from v_batches where {_RETRIED}",
        by=("protocol", "topic"),
        more="saturated(sum(records)) as messages",
        severity=NOTE,
    ),
    Told(
        SomeRows("exchanges", _BROUGHT_NOTHING, least=STUCK), "stuck_consumer",
        "{who} fetched offset {position} of {name}-{partition} {count:times} and got only the beginning of a message: "
        "it is larger than the fetch allows.",
        _STUCK,
        by=("protocol", "name", "partition", "position"),
    ),
    Told(
        SomeRows("positions", "protocol = 'iggy' and what = 'high_watermark'", least=2), "consumer_behind",
        "{count:poll} of {reader} ({who}) for partition {partition} of topic {topic:topic} found nothing, though "
        "{came:message} came meanwhile.",
        _EMPTY,
        by=("protocol", "reader", "topic", "partition"),
        more="max(came) as came",
        advice="See where it reads: an offset that was stored before the topic was purged, or before its end was lost, "
        "lies behind the end. Delete that offset, or poll from the first message.",
    ),
    Told(
        SomeRows("positions", "protocol = 'iggy' and what = 'high_watermark'", least=BEGUN_AGAIN), "consumer_behind",
        "{count:poll} of {of} ({who}) for partition {partition} of topic {topic:topic} began at offset {first} one "
        "after the other{waiting:, while ~message/waits/wait~ behind what they got}: nothing that was read is stored.",
        _SAME,
        by=("protocol", "reader", '"group"', "topic", "partition", "first"),
        more=f"max(waiting) as waiting, if(\"group\" is null, '{NOTE}', null) as severity, "
        "if(\"group\" is null, reader, 'group ' || reader) as of",
        advice="Let it poll with auto-commit, or store the offset of what it has processed: else the next messages are "
        "the same ones. Nothing, if it only looks at them, or cannot process the first.",
    ),
    Told(
        SomeRows("positions", "what = 'committed' and (consumer is not null or api = 'OffsetCommit')", least=TURNS),
        "shared_offset",
        "{who} read topic {topic:topic} beside each other as {of}: they stored its offset by turns, {count:times}, so "
        "{so}.",
        _BY_TURNS,
        by=("protocol", "reader", "topic", "so"),
        more="if(protocol = 'iggy', reader, 'group ' || reader || ', which has no members') as of",
    ),
    Told(
        SomeRows("v_calls", "api like 'POLL_MESSAGES%' and \"group\" is not null", least=MANY), "idle_members",
        "{idle:number} of {members:member} of group {group} ({who}) found nothing in {count:poll}: all "
        "{messages:message} of topic {topic:topic} came from {parts:partition}, to others.",
        _IDLE,
        by=("protocol", '"group"', "topic"),
        more="any_value(idle) as idle, any_value(members) as members, any_value(messages) as messages, "
        "any_value(parts) as parts",
    ),
    Told(
        SomeRows("v_calls", _JOINS, least=A_MINUTE), "rebalances",
        "{who} joined group {group} {count:times}, "
        f"{A_MINUTE} or more of them within a minute: each time its partitions are dealt out anew.",
        f"""
        select * from (
            select *, count(*) over (partition by {PLACE}, "group" order by time
                range between interval 59999999 microseconds preceding and current row) as within
            from v_calls where {_JOINS}
        ) qualify max(within) over (partition by {PLACE}, "group") >= {A_MINUTE}""",
        by=("protocol", "client", '"group"'),
        advice="Let it join once after each login, and stay.",
    ),
    Told(
        SomeRows("batches", "role = 'produce' and protocol <> 'kafka' and partition is not null"), "consumer_behind",
        "{messages:message/was/were} sent to {which} of topic {topic:topic}, which nobody in the capture reads, though "
        "others of the topic are read.",
        _UNREAD,
        by=("protocol", "topic"),
        more="saturated(sum(records)) as messages, if(number_of(partition) = 1, 'partition ', 'partitions ') || "
        "array_to_string(names_of(partition)[:5], ', ') as which",
        severity=NOTE,
        advice="If nobody reads them elsewhere, let clients look for new partitions, or read all that there are.",
    ),
    Told(
        SomeRows("positions", "what in ('committed', 'pending') and protocol <> 'pulsar'", least=2),
        "offsets_moved_back",
        "Group {group} went back {count:times} in {partitions:partition} of topic {topic:topic}, by "
        "{count:?/up to }{furthest:message}: {who} committed a smaller offset than before.",
        _BACK,
        by=("protocol", '"group"', "topic"),
        more="number_of(part) as partitions, max(messages) as furthest",
    ),
    Told(
        SomeRows("events", "kind in ('released', 'rejected', 'delivered_again')"), "share_group",
        "Share group {group} released {released:message} for another delivery and rejected {rejected} for good, of "
        "{delivered:number} delivered{why}.",
        _REFUSED,
        by=("protocol", '"group"'),
        more="saturated(sum(released)) as released, saturated(sum(rejected)) as rejected, "
        "saturated(max(delivered)) as delivered, case when sum(again) > coalesce(sum(released), 0) then concat('; ', "
        "sum(again) - coalesce(sum(released), 0), ' came again that nobody released: their lock ran out, or their "
        "member went') else '' end as why, "
        f"case when sum(rejected) > 0 then '{WARNING}' else '{NOTE}' end as severity",
    ),
    Told(
        SomeRows("events", "kind = 'status'"), "group_not_ready",
        "Group {group} does not work: its broker tells {who} {told}.",
        f"select * from ({_STATUS}) where over is null",
        by=("protocol", '"group"', "told"),
    ),
    Told(
        SomeRows("events", "kind = 'status'"), "group_not_ready",
        "Group {group} did not work for {over_ns:ns}: its broker told {who} {told}.",
        f"select * from ({_STATUS}) where over is not null",
        by=("protocol", '"group"', "told"),
        more="max(epoch_us(over) - epoch_us(time)) * 1000 as over_ns",
        severity=NOTE,
        advice="Nothing: it works again.",
    ),
    Told(
        SomeRows("events", "kind = 'rule_broken'"), "protocol_violation",
        "{who} broke a rule of the protocol {count:times}: {first}.",
        f"{_BROKEN} = 'client'",
        by=("protocol", "rule"),
        more="arg_min(text, time) as first",
    ),
    Told(
        SomeRows("events", "kind = 'rule_broken'"), "protocol_violation",
        "{servers:broker} broke a rule of the protocol {count:times}: {first}.",
        f"{_BROKEN} is distinct from 'client'",
        by=("protocol", "rule"),
        more="arg_min(text, time) as first",
    ),
    Told(
        SomeRows("events", "kind = 'overtaken'"), "out_of_order_answers",
        "Broker {server} answered {count:request} of {who} ({apis}) after later requests of the same connection.",
        "select * from v_noted where event = 'overtaken'",
        by=("protocol", "server"),
        more="names_of(api) as apis",
    ),
    *(Told(
        _PINGED, "keepalive_timeout",
        f"{{count:PING}} of {asks} had no answer from {silent}{{beside}}; {{connections:connection/was/were}} closed "
        "{closer}{longest} later.",
        f"select * from ({_PINGS}) where initiator is {also} distinct from 'server'",
        more=_CLOSER,
    ) for asks, silent, also in (("{servers:broker}", "{who}", "not"), ("{who}", "{servers:broker}", ""))),
    Told(
        SomeRows("connections", _HTTP), "foreign_peer",
        "{server} answered {who} in HTTP, {count:times}: it is no broker.",
        f"{_STRANGE} true",
        by=("server",),
    ),
    Told(
        SomeRows("connections", _HTTP), "foreign_peer",
        "{who} spoke HTTP to {server}, {count:times}: it is no client of a broker.",
        f"{_STRANGE} not true",
        by=("server",),
    ),
    Told(
        SomeRows("connections", f"{_USED} and {_UNHEARD}"), "tls_mismatch",
        "{who} tried TLS {count:times} with {server}{speaks}: each connection was closed without an answer.",
        f"select * from ({_SEEN}) where {_UNHEARD}",
        by=("server",),
        more="case when bool_or(plain_there) then ', which speaks plaintext to others' else '' end as speaks",
    ),
    Told(
        SomeRows("connections", f"{_USED} and {_ALERTED}"), "tls_mismatch",
        "{who} spoke plaintext {count:times} to {server}, and {why}; no request was answered.",
        f"""
        select * from ({_SEEN})
        where {_ALERTED} and (server_bytes = {_ALERT} or (tls_there and not plain_there))""",
        by=("protocol", "server"),
        more="case when bool_or(tls_there) then 'others speak TLS with it' else "
        f"'its answer has the {_ALERT} bytes of a TLS alert' end as why",
    ),
    Told(
        SomeRows("connections", _SEALED), "tls_without_keys",
        "{count:TLS connection} to {servers:server} could not be decrypted: no key log with the keys was given.",
        f"select * from v_connections where {_SEALED}",
        by=(),
    ),
    Told(
        SomeRows("connections", _ONE_WAY), "one_direction",
        "{count} of {known:connection} {count:?was/were} captured in one direction only.",
        f"select * from v_connections where {_ONE_WAY}",
        by=(),
        more="(select count(*) from connections where protocol is not null) as known",
    ),
    Told(
        SomeRows("connections", "gap_bytes > 0"), "capture_loss",
        "The capture lacks {lost:bytes}, {lost_share:share} of the streams, on {count:connection}.",
        _GAPS,
        by=(),
        more="saturated(sum(gap_bytes)) as lost, sum(share) as lost_share, "
        "any_value(silent_from) as silent_from, any_value(silent_to) as silent_to, "
        "any_value(last_answer) as last_answer, "
        f"case when sum(share) >= {LOST_SHARE} then '{WARNING}' else '{NOTE}' end as severity",
        detail=(
            "No verdict is given on answers there that may lie in the missing bytes.",
            "From {silent_from:clock} to {silent_to:clock} nothing was captured on any connection.",
            "After {last_answer:clock} only what clients sent was captured.",
        ),
    ),
)  # fmt: skip
