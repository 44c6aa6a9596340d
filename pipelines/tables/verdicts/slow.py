"""Requests that took long, by where their time went; brokers that are slower than others; the slowest in a hundred.

Time at a barrier or in a long poll is none of these, nor a throttle. Of a request that waited behind others of its own
connection, the wait is told by `head_of_line`; of one that waited for a retransmission, by `retransmissions`; of a
fetch that the broker held too long, by `fetch_overdue`. What one of them tells, those that come later leave out.
"""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.sql.words import HAS_REQUEST
from pipelines.tables.causes import PARTS, largest
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import PLACE, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import WARNING
from pipelines.tables.verdicts.thresholds import (
    AS_FAST,
    BURSTS,
    ENOUGH,
    EVEN,
    FAR_NS,
    GROWN,
    LARGE,
    LASTING,
    LONGER,
    LONGER_NS,
    LOSSY,
    MANY,
    MOSTLY,
    PAUSE_NS,
    QUEUED,
    QUEUED_NS,
    QUEUED_SUM_NS,
    RESENT_WAIT_NS,
    SLOW_NS,
    STEADY,
    STRETCH_US,
    SYN_AGAIN_NS,
    TAIL,
    TAIL_NS,
    UNEVEN,
    UNEVEN_BURSTS,
    UNEVEN_NS,
)
from pipelines.tables.verdicts.told import Told
from pipelines.tables.verdicts.unanswered import REPLICATOR
from pipelines.tables.verdicts.verdict import Row, Ruling

_ANSWERED = """kind = 'call' and coalesce(answer, 'whole') = 'whole' and total_ns is not null
    and initiator is distinct from 'server'"""  # its clients answer those
_PLAIN = f"{_ANSWERED} and not held and coalesce(throttle_ms, 0) = 0"
_LONG = f"{_ANSWERED} and coalesce(throttle_ms, 0) = 0 and total_ns - held_ns >= {SLOW_NS}"
_STOOD = f"""
    kind = 'call' and queued_ns >= {QUEUED_NS} and coalesce(throttle_ms, 0) = 0
        and api not in ('Fetch', 'ShareFetch', 'Produce')"""
_SERVED = f"{_PLAIN} and service_ns is not null"
_MOST = f"greatest({', '.join(f'coalesce({part.name}_ns, 0)' for part in PARTS)})"
# the part that took most of the time; of requests whose stages are not known, the broker or none
_CAUSED = f"""
    select c.*, coalesce(p.cause, case when service_ns > total_ns / 2 then 'broker' else 'several' end) as cause, rtt_ns
    from (from v_calls where {_LONG}) c left join (
        select site, exchange_id, case when {_MOST} > total_ns / 2 then {largest()} else 'several' end as cause
        from v_causes
    ) p using (site, exchange_id)
        left join (select site, connection, incarnation, rtt_ns from connections
            where rtt_ns between {FAR_NS} and {SYN_AGAIN_NS})
            using (site, connection, incarnation)"""
_WHERE = {part.name: f"most of that went to {part.says}" for part in PARTS} | {
    "broker": "most of that was the broker's own time",
    "several": "no single stage took most of that",
}
_ADVICE = {
    "broker": "Look at disks, garbage collection and load of the broker at that time.",
    "replicas": "Look at disks, garbage collection and load of the broker at that time, and of those that hold its "
    "replicas: it waits for them, as acks=all asks.",
    "bookies": "Look at the bookies of the topic (disks of their journals, how many are up), at publish rates that are "
    "set for topic, namespace or broker, and at garbage collection and load of the broker at that time.",
    "window": "Look at the application on the side that did not read.",
    "transfer": "Fetch less at once, or let the reader take more within a round trip (receive.buffer.bytes).",
    "sending": "Look at the client's host and its path: it was still sending.",
    "delayed_ack": "Set TCP_NODELAY where requests or answers are written in pieces.",
}
# requests most of whose time was a wait for a delayed acknowledgement, of clients most of whose requests are so, where
# it was not the path that took this time: the handshake shows it, or a broker that answers sooner
_DELAYED = f"""
    with delayed as (
        select c.* replace (p.delayed_ack_ns as cost_ns) from v_calls c join v_causes p using (site, exchange_id)
        where p.delayed_ack_ns > c.total_ns / 2 and (
            (c.site, c.connection, c.incarnation) in (select ({PLACE}) from connections where handshake = 'full')
                or c.request_ns > c.response_ns and c.wait_ns < p.delayed_ack_ns / 2)
    )
    select d.*, asked from delayed d join (
        select site, client, server, api, count(*) as asked from v_calls group by all
    ) using (site, client, server, api)
    qualify count(*) over (partition by site, client, server, api) >= greatest({MANY}, asked / 2)"""
DELAYED_ACK = Told(
    SomeRows("stalls", "kind = 'delayed_ack'", least=MANY), "delayed_ack",
    "{count:number} of {asked:request} of {who} to {server} ({api}) took {median_ns:ns} longer: {writer} in pieces, "
    "and waited for an acknowledgement that the other side delayed.",
    _DELAYED,
    by=("site", "protocol", "client", "server", "api"),
    more="any_value(asked) as asked, quantile_disc(cost_ns, 0.5) as median_ns, "
    "if(sum(request_ns) > sum(response_ns), 'the client wrote them', 'the broker wrote its answers') as writer",
    keeps="v_delayed",
)  # fmt: skip
_APART = "partition by protocol, api, cause order by time, site, exchange_id"
# slow requests, with whether each is the first after a pause, and how long (us) after the one of which that was true
_IN_BURSTS = f"""
    select *, if(begins, epoch_us(time) - max(epoch_us(time)) filter (begins) over before, null) as apart_us
    from (
        select *, coalesce(epoch_us(time) - max(epoch_us(until)) over before >= {PAUSE_NS // 1000}, true) as begins
        from v_slow window before as ({_APART} rows between unbounded preceding and 1 preceding)
    ) window before as ({_APART} rows between unbounded preceding and 1 preceding)"""
_RHYTHM = f"""
    case when count(*) filter (begins) >= {BURSTS} and max(apart_us) - min(apart_us) <= {UNEVEN_BURSTS} * min(apart_us)
        then count(*) filter (begins) end as bursts, quantile_disc(apart_us, 0.5) * 1000 as apart_ns"""
# how long they took; what of an answer came in a round trip, where that is known to be long; whether all waited for
# replicas
_PACE = """
    max(total_ns) as longest_ns, quantile_disc(rtt_ns, 0.5) filter (cause = 'transfer') as trip_ns,
    sum(response_bytes)::double / sum(response_ns) * trip_ns as in_round_trip,
    bool_and(acks = -1 and list_has_any(topics, (
        select list(distinct topic) from positions where len(replicas) > 1))) as replicated"""


# requests that seem to have waited while nothing was captured, though there was something to capture: clients with no
# request open ask steadily before and after; or none of several brokers answered fetches, for which each has a timer
_STOOD_STILL = f"""
    with marks as (
        select site, unnest([time, time + to_microseconds((coalesce(request_ns, 0) + coalesce(wait_ns, 0)) // 1000),
            until]) as mark from v_calls
        union all select site, unnest([start_time, end_time]) from connections
    ), moments as (  -- as many as the capture has tenths of a second, however many requests there are
        select site, epoch_us(mark) // 100000 as tenth, min(mark) as begins, max(mark) as ends from marks
        where mark is not null group by all
    ), pauses as (
        select site, begins as upto, lag(ends) over (partition by site order by tenth) as since from moments
    ), through as (
        select c.*, since, upto, (epoch_us(upto) - epoch_us(since)) * 1000 as stood_ns
        from (from v_calls where kind = 'call' and total_ns >= {SLOW_NS}) c
            asof join (from pauses where upto - since >= to_microseconds({SLOW_NS // 1000})) p
            on c.site = p.site and c.time <= p.since
        where until >= upto
    ), gaps as (
        select g.*, since, upto, since >= before as across from (
            select site, client_ip, time, lag(time) over (partition by site, client_ip order by time) as before
            from v_calls where {HAS_REQUEST} and exists (from through)
        ) g asof left join (select distinct site, since, upto from through) p on g.site = p.site and g.time >= p.upto
    ), usual as (
        select site, client_ip, max(time - before) filter (across is not true) as pause from gaps
        group by all having count(*) >= {2 * MANY}
    ), free as (
        select site, since, count(*) as hosts from gaps join usual using (site, client_ip)
            anti join through using (site, client_ip, since)
        where across and time - before between {STEADY} * pause and upto - since + 2 * pause group by all
    )
    select * from (
        select t.* from through t left join free using (site, since) window at_once as (partition by site, since)
        qualify hosts >= greatest(2, count(distinct client_ip) filter (allowed_ns is null) over at_once)
            or count(distinct server_ip) filter (allowed_ns < stood_ns / {STEADY}) over at_once >= 2
    ) where total_ns - stood_ns - coalesce(allowed_ns, 0) < {SLOW_NS}"""

CAPTURE_PAUSED = Told(
    SomeRows("v_calls", f"kind = 'call' and total_ns - held_ns >= {SLOW_NS}"), "capture_paused",
    "From {since:clock} to {upto:clock}{others:, and ~times~ more,} nothing was captured on any connection, though "
    "clients ask all the time: {count:request} of {who} {count:?seems/seem} to have taken {longest}.",
    _STOOD_STILL,
    by=("site",),
    more="max(total_ns) as longest_ns, arg_max(since, row(stood_ns, since)) as since, "
    "arg_max(upto, row(stood_ns, since)) as upto, count(distinct since) - 1 as others",
    keeps="v_paused",
)  # fmt: skip
"""Requests that seem long, as the capture stood still or its clock was set forward before their answers came."""


@needs(SomeRows("v_calls", _LONG))
def slow_requests(capture: Capture) -> Iterator[Ruling]:
    """By API and cause."""
    slow = f"""
        select * from ({_CAUSED}) v_calls where cause not in ('queued', 'resent') and not {capture.explained()}"""
    if not capture.keep("v_slow", slow):
        return
    capture.explain("select * from v_slow")
    for row in capture.timed(_IN_BURSTS, ["protocol", "api", "cause"], f"{_PACE}, {_RHYTHM}"):
        requests = say.counted(row["count"], f"{row['api'] or 'unknown'} request")
        where = f" at {say.listed(row['servers'], 'broker')}" if row["cause"] == "broker" else ""
        rhythm = row["bursts"] and f"They came in {row['bursts']} bursts, one every {say.span(row['apart_ns'])} or so."
        pace = row["trip_ns"] and (
            f"In a round trip of {say.span(row['trip_ns'])}, {units.size(row['in_round_trip'])} of an answer came."
        )
        yield Ruling(
            "slow_requests",
            f"{requests} of {say.clients(row)} took {say.most(row['count'], row['longest_ns'])}{where}; "
            f"{_WHERE[row['cause']]}.",
            row,
            " ".join(filter(None, (row["largest_part"], pace, rhythm))) or None,
            advice=_ADVICE.get(_stage(row)),
        )


def _stage(row: Row) -> str:
    """What to give advice on: the part that took most of the time; of a broker's own, what it waits for."""
    if row["cause"] == "broker" and (row["replicated"] or row["api"] == "SEND"):
        return "replicas" if row["replicated"] else "bookies"
    return str(row["cause"])


HEAD_OF_LINE = Told(
    SomeRows("v_calls", _STOOD, least=QUEUED), "head_of_line",
    "{count:request} of {who} waited {longest} behind earlier requests of the same connection.",
    lambda capture: f"""
        select * replace (queued_ns as cost_ns) from v_calls c
        where {_STOOD} and not {capture.explained()} and not exists (  -- behind a throttle
            select 1 from exchanges t where t.throttle_ms > 0 and t.site = c.site
                and t.connection = c.connection and t.incarnation = c.incarnation)
        qualify count(*) over (partition by protocol) >= {QUEUED}""",
    more="max(queued_ns) as longest_ns, names_of(api) as names, "
    f"case when sum(cost_ns) >= {QUEUED_SUM_NS} then 'warning' else 'note' end as severity",
    detail="These were {names:names}.",
    keeps="v_queued",
)  # fmt: skip
"""Requests that stood behind others of their own connection."""

# what brokers answer once it is written, at their replicas too: one slow replica makes all of these slow
_REPLICATED = (
    "Produce", "OffsetCommit", "TxnOffsetCommit", "InitProducerId", "AddPartitionsToTxn", "AddOffsetsToTxn", "EndTxn",
    "SEND", "ACK", "SEND_MESSAGES", "STORE_CONSUMER_OFFSET",
)  # fmt: skip
# requests that waited longer than any between their hosts did before, all of them, for a while; with the handshakes of
# connections that were opened meanwhile, which no broker delays, if they took longer than others, too. Where there
# are none, the fastest of all kinds wait nearly as long as the usual one: a busy broker lets some through
_WAITED = f"{_PLAIN} and wait_ns > 0"
_FARTHER = f"""
    with pairs as (
        select site, client_ip, server, min(wait_ns) as least_ns from v_calls where {_WAITED} group by all
        having count(*) filter (wait_ns >= {LONGER_NS}) >= {MANY // 4}
    ), runs as (
        select *, count(*) filter (not far) over (
            partition by site, client_ip, server order by time, exchange_id) as run
        from (
            select site, client_ip, server, exchange_id, time, until, wait_ns, least_ns,
                wait_ns >= greatest({LONGER} * least_ns, least_ns + {LONGER_NS}) as far
            from (from v_calls where {_WAITED}) join pairs using (site, client_ip, server))
    ), spans as (
        select site, client_ip, server, run, min(time) as since, max(until) as upto, min(wait_ns) as fastest_ns,
            quantile_disc(wait_ns, 0.5) as usual_ns
        from runs where far and run >= {MANY} group by all
        having count(*) >= {MANY // 4} and upto - since >= to_microseconds({STRETCH_US})
    ), opened as (
        select site, client_ip, server, run, min(rtt_ns) filter (n.start_time between since and upto) as then_ns,
            then_ns - min(rtt_ns) filter (n.start_time not between since and upto) as more_ns
        from spans join v_connections n using (site, client_ip, server) where rtt_ns < {SYN_AGAIN_NS} group by all
    ), found as (
        select site, exchange_id, least_ns, fastest_ns, if(more_ns is not null, then_ns, null) as handshake_ns
        from runs join spans using (site, client_ip, server, run) left join opened using (site, client_ip, server, run)
        where far and coalesce(more_ns >= {EVEN} * (fastest_ns - least_ns), fastest_ns >= {AS_FAST} * usual_ns)
            and coalesce(then_ns >= {EVEN} * (fastest_ns - least_ns), true)
    )
    select c.*, least_ns, fastest_ns, handshake_ns from v_calls c join found using (site, exchange_id)
    where not {{told}}
    window its as (partition by site, protocol, server)
    qualify count(distinct if(api in {_REPLICATED}, '', api)) over its >= 2 or max(handshake_ns) over its > 0"""

LONGER_PATH = Told(
    SomeRows("v_calls", f"{_WAITED} and wait_ns >= {LONGER_NS}", least=MANY // 4), "longer_path",
    "From {first_time:clock} to {last_time:clock} even the fastest answer of {servers:broker} to {who} took "
    "{fastest_ns:ns}, in place of {least_ns:ns}, as {grew} longer.",
    lambda capture: _FARTHER.format(told=capture.explained()),
    by=("site", "protocol", "server"),
    more="min(fastest_ns) as fastest_ns, min(least_ns) as least_ns, min(handshake_ns) as handshake_ns, "
    "if(min(handshake_ns) is null, 'if the path between them had grown', 'the path between them grew') as grew",
    detail="Handshakes of connections that were opened then took {handshake_ns:ns}.",
    cost_ns="saturated(sum(wait_ns - least_ns))",
    keeps="v_farther",
)  # fmt: skip
"""Hosts between which everything takes longer than before by as much."""

_FAR = f"total_ns >= greatest({TAIL_NS}, {TAIL} * p50_ns)"
# requests that took far longer than usual at a broker, where most of what their client asked there in STRETCH_US did;
# of clients that waited for these answers for most of the time twice; `among`: how many requests there were then, of
# which nothing else has told the most
_STRETCHES = f"""
    with plain as (
        select c.*, epoch_us(time) // {STRETCH_US} as part from v_calls c where {_PLAIN}
    ), usual as (
        select site, protocol, api, server, quantile_disc(total_ns, 0.5) as p50_ns from plain
        group by all having count(*) >= {ENOUGH} and max(total_ns) >= greatest({TAIL_NS}, {TAIL} * p50_ns)
    ), parts as (
        select site, protocol, server, client, part, count(*) as n,
            sum(total_ns) filter ({_FAR}) >= {STRETCH_US * 1000 // 2} as mostly
        from plain join usual using (site, protocol, api, server) group by all
        having count(*) filter ({_FAR}) >= n / 2
    ), stood as (
        select *, sum(n) over (partition by site, protocol, server)::bigint as among from (
            from parts qualify count(*) filter (mostly) over (partition by site, protocol, server, client) >= 2)
    )
    select plain.* exclude (part), p50_ns, among from plain join usual using (site, protocol, api, server)
        join stood using (site, protocol, server, client, part)
    where {_FAR} and not {{told}}
    qualify 2 * count(*) over (partition by plain.site, plain.protocol, plain.server) >= among"""

_SLOW_FOR_A_WHILE = (
    "Look at the broker and its disks at that time; where requests of every kind are slow, at its request queue "
    "and its threads; where only one client's are, at the path to it."
)
SLOW_STRETCH = Told(
    SomeRows("v_calls", _PLAIN, least=ENOUGH, one=f"total_ns >= {TAIL_NS}"), "slow_tail",
    "From {first_time:clock} to {last_time:clock}, {count:number} of {among:request} of {who} took {longest} at "
    "{servers:broker}, in place of {usual_ns:ns}: {apis}.",
    lambda capture: _STRETCHES.format(told=capture.explained()),
    by=("site", "protocol", "server"),
    more="max(total_ns) as longest_ns, avg(p50_ns) as usual_ns, any_value(among) as among, names_of(api) as apis",
    detail="{largest_part}",
    severity=WARNING,
    keeps="v_stretches",
    advice=_SLOW_FOR_A_WHILE,
)  # fmt: skip
"""Clients of which, for a while, most of what they asked of a broker took far longer than usual."""


# requests that took longer than usual there while the usual request of their kind and of their client did, part after
# part of STRETCH_US, with what it took before. Large requests may take longer, in proportion to their bytes
_SINCE = f"""
    with plain as (
        select * replace (total_ns - coalesce(queued_ns, 0) as total_ns), concat_ws(' ', api, acks) as asked,
            epoch_us(time) // {STRETCH_US} as part,
            greatest(coalesce(request_bytes, 0)::double + coalesce(response_bytes, 0), {LARGE}) as size
        from v_calls where {_PLAIN}
    ), parts as (
        select site, protocol, asked, server, part, quantile_disc(total_ns, 0.5) as now_ns, avg(size) as size
        from plain group by all having count(*) >= {MANY // 2}
    ), compared as (
        select *, min(now_ns) over kind as usual_ns,
            now_ns >= greatest({TAIL_NS}, {GROWN} * usual_ns * greatest(1, size / min(size) over kind)) as slow
        from parts window kind as (partition by site, protocol, asked, server)
    ), runs as (
        select *, count(*) filter (not slow) over (partition by site, protocol, asked, server order by part) as run
        from compared
    ), lasting as (
        select *, min(part) over its as since from runs where slow and run >= {LASTING}
        window its as (partition by site, protocol, asked, server, run) qualify count(*) over its >= {LASTING}
    ), before as (
        select site, protocol, asked, server, client, since, quantile_disc(total_ns, 0.5) as own_ns
        from plain p join (select distinct site, protocol, asked, server, since from lasting) l
            using (site, protocol, asked, server) where p.part < l.since group by all
    )
    select p.* exclude (asked, part, size), now_ns, usual_ns from plain p
        join lasting l using (site, protocol, asked, server, part)
        join before b using (site, protocol, asked, server, since, client)
    where total_ns >= {TAIL_NS} and now_ns >= {GROWN} * own_ns and not {{told}}
    qualify count(*) over (partition by p.site, p.protocol, p.server) >= {ENOUGH}"""

SLOW_SINCE = Told(
    SomeRows("v_calls", f"{_PLAIN} and total_ns >= {TAIL_NS}", least=ENOUGH), "slow_tail",
    "From {first_time:clock} to {last_time:clock} the usual {names:names} at {servers:broker} took {now_ns:ns}, in "
    "place of {usual_ns:ns} before: {count:request} of {who}.",
    lambda capture: _SINCE.format(told=capture.explained()),
    by=("site", "protocol", "server"),
    more="quantile_disc(now_ns, 0.5) as now_ns, quantile_disc(usual_ns, 0.5) as usual_ns, names_of(api) as names",
    detail="{largest_part}",
    severity=WARNING,
    keeps="v_since",
    advice=_SLOW_FOR_A_WHILE,
)  # fmt: skip
"""Brokers at which the usual request takes far longer than it did."""

SLOW_TAIL = Told(
    SomeRows("v_calls", _PLAIN, least=ENOUGH, one=f"total_ns >= {TAIL_NS}"), "slow_tail",
    "One {api} in a hundred took {p99_ns:ns} or more, {factor} times the median of {p50_ns:ns}.",
    lambda capture: f"""
        with plain as (
            select * from v_calls where {_PLAIN} and not {capture.explained()}
        ), tails as (
            select protocol, api, quantile_disc(total_ns, 0.5) as p50_ns, quantile_disc(total_ns, 0.99) as p99_ns
            from plain group by all
            having count(*) >= {ENOUGH} and p99_ns >= {TAIL_NS} and p99_ns / {TAIL} >= p50_ns
        )
        select c.*, p50_ns, p99_ns from plain c join tails t
            on c.protocol = t.protocol and c.api is not distinct from t.api and total_ns >= p99_ns""",
    by=("protocol", "api", "p50_ns", "p99_ns"),
    more="round(p99_ns / greatest(1, p50_ns))::bigint as factor",
    detail="{largest_part}",
)  # fmt: skip
"""APIs of which one request in a hundred takes far longer than the usual one."""

# requests with the broker's part of their wait: less what stalls took of it, and less the way there and back; but for
# those that another cluster sends
_BY_BROKER = f"""
    select c.*, greatest(coalesce(p.broker_ns, service_ns) - coalesce(n.rtt_ns, 0), 0) as broker_ns
    from (from v_calls v where {_SERVED} and not {{told}} and not {REPLICATOR.format("v")}) c
        left join (select site, exchange_id, broker_ns from v_causes) p using (site, exchange_id)
        left join (select site, server_ip, min(rtt_ns) as rtt_ns from connections where rtt_ns < {SYN_AGAIN_NS}
            group by all) n using (site, server_ip)"""
# the worst brokers; `own`, `others`: mean time of the broker and of the others at its API. Large requests may take
# longer, in proportion to their bytes
_WORST = f"""
    with each as (
        select site, protocol, api, server, count(*) as n, sum(broker_ns)::double as spent,
            quantile_disc(broker_ns, {MOSTLY}) as slow,
            sum(coalesce(request_bytes, 0)::double + coalesce(response_bytes, 0)) as size
        from ({_BY_BROKER}) group by all
    ), compared as (
        select *, spent / n as own, sum(n) over w - n as others_n,
            (sum(spent) over w - spent) / others_n as others, (sum(size) over w - size) / others_n as others_size
        from each window w as (partition by site, protocol, api)
    )
    select * from compared
    where n >= {ENOUGH} and others_n >= {ENOUGH} and own - others >= {UNEVEN_NS}
        and slow >= {UNEVEN} * others  -- more than a few of them are slow
        and own >= {UNEVEN} * others * greatest(1, size / n / greatest(others_size, {LARGE}))
    order by (own - others) * n desc, server, api limit 3"""
# those of their requests that took longer than at the others, so that it is known since when; `fastest_ns`: of all that
# the broker was asked since then
_UNEVEN = f"""
    with uneven as (
        select c.* replace (broker_ns as cost_ns), own, others,
            min(c.time) over its as since, max(c.time) over its as upto
        from ({_BY_BROKER}) c join v_worst w on c.site = w.site and c.server = w.server and c.protocol = w.protocol
            and c.api is not distinct from w.api
        where broker_ns >= {UNEVEN} * others
        window its as (partition by c.site, c.protocol, c.api, c.server)
    ), met as (
        select u.site, u.server, u.api, min(b.broker_ns) as fastest_ns
        from (select distinct site, server, api, since, upto from uneven) u join ({_BY_BROKER}) b
            on u.site = b.site and u.server = b.server and b.time between since and upto group by all
    )
    select u.* exclude (broker_ns, since, upto), if(fastest_ns >= {EVEN} * own, fastest_ns, null) as fastest_ns
    from uneven u join met m on u.site = m.site and u.server = m.server and u.api is not distinct from m.api"""

_PATH_FIRST = "Look first at the network between this broker and its clients: a path that grew longer looks like this."


def _uneven(capture: Capture) -> str:
    """Requests of the worst brokers, but for what was slow for a while."""
    told = f"({capture.kept('v_stretches')} or {capture.kept('v_farther')})"
    return _UNEVEN.format(told=told) if capture.keep("v_worst", _WORST.format(told=told)) else ""


UNEVEN_BROKER = Told(
    SomeRows("v_calls", _SERVED, least=2 * ENOUGH), "uneven_broker",
    "Broker {server} is {factor} times slower than the others at {api}: {own:ns} on average against {others:ns}"
    "{fastest_ns:, and even the fastest of any kind ~ns~ since then}.",
    _uneven,
    by=("site", "protocol", "api", "server", "own", "others"),
    more="format('{:.1f}', own / others) as factor, any_value(fastest_ns) as fastest_ns, "
    f"if(any_value(fastest_ns) is null, null, '{_PATH_FIRST}') as advice",
    detail="{largest_part}",
    keeps="v_uneven",
)  # fmt: skip

# --- bytes that were lost and sent again ---

_PARTS = ", ".join(f"coalesce(p.{part.name}_ns, 0)" for part in PARTS)
_NEEDED = "not coalesce(spurious, false)"  # of stalls: what was sent again had been lost, as far as is known
_TIMEOUTS = f"kind = 'resend_timeout' and {_NEEDED}"
_RESENDS = f"kind in ('resend_timeout', 'fast_retransmit') and {_NEEDED}"
# where packets are lost so often that a sender waited for its timer, whatever requests it met: most of what was sent
# again was missing (what was not may still stand for an acknowledgement that was lost)
_LOSSY = f"""(
    select sum(retransmissions) >= {LOSSY} * sum(client_packets::hugeint + server_packets)
        and sum(coalesce(spurious, 0)) * 2 <= sum(retransmissions)
    from connections) and exists (from stalls where {_TIMEOUTS})"""
# requests of whose time the largest part went to bytes that were lost and sent again; needless resending is none.
# Of an answer that was lost behind the capture point the exchange seemed to be over, and its client waited on
_DELAYED = f"""
    with answers as (
        select c.site, c.exchange_id,
            max(epoch_us(s.time) + s.duration_ns // 1000 - epoch_us(c.until)) * 1000 as longer_ns
        from (from stalls where direction = 'server' and {_RESENDS}) s asof join (from v_calls where kind = 'call') c
            on s.site = c.site and s.connection = c.connection and s.incarnation = c.incarnation and s.time >= c.time
        where epoch_us(s.time) <= epoch_us(c.until) + 1 group by all having longer_ns > 0
    )
    select c.* replace (
        greatest(coalesce(p.resent_ns, 0), coalesce(a.longer_ns, 0)) as cost_ns,
        c.total_ns + coalesce(a.longer_ns, 0) as total_ns), tcp.*
    from v_calls c cross join (
        select saturated(sum(retransmissions)) as resent,
            saturated(sum(client_packets::hugeint + server_packets)) as packets from connections
    ) tcp left join v_causes p on p.site = c.site and p.exchange_id = c.exchange_id
    left join answers a on a.site = c.site and a.exchange_id = c.exchange_id
    where kind = 'call' and coalesce(throttle_ms, 0) = 0 and (a.longer_ns >= {RESENT_WAIT_NS}
        or p.resent_ns >= {RESENT_WAIT_NS} and p.resent_ns >= greatest({_PARTS}) or p.resent_ns > 0 and {_LOSSY})"""

RETRANSMISSIONS = Told(
    SomeRows("stalls", _RESENDS), "retransmissions",
    "{count:request} of {who} took {longest}, {cost_ns:ns} of it in all for bytes that were lost and sent again.",
    _DELAYED,
    more="max(total_ns) as longest_ns, any_value(resent) as again, any_value(packets) as among, "
    "again / among as share",
    detail=("{again:segment} in {among:packet} {again:?was/were} retransmitted, {share:share}.", "{largest_part}"),
    keeps="v_delayed",
)  # fmt: skip
"""Slow requests of which bytes were retransmitted."""
