"""Topics that moved from broker to broker, or were unloaded and loaded again (Pulsar)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pipelines.formats import who
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.interruption import resent
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.taken import QUOTA
from pipelines.tables.verdicts.thresholds import AT_ONCE_US, LINKS, LISTED, MOVE_US, SLOW_NS, SOON_US
from pipelines.tables.verdicts.verdict import Link, Row, Ruling, sql_list

# What brokers closed, and the next time that it was opened; but not what closes after a client's own seek, when a topic
# is terminated or a segment of a scalable topic split, because a producer that is being created takes the place of the
# others, or because a backlog is over its quota.
_MOVES = f"""
    with closed as (
        select topic, server, client, site, connection, time, file, packet, text as named, epoch_us(time) as at_us
        from v_events f
        where kind in ('closed_by_broker', 'migrated')
            and topic is not null and topic not like 'segment://%' and not exists (
            select 1 from exchanges s where s.api in ('SEEK', 'UNSUBSCRIBE') and s.site = f.site
                and s.connection = f.connection and epoch_us(f.time) - epoch_us(s.time) between 0 and {AT_ONCE_US})
            and not exists (
                select 1 from exchanges s where s.api = 'REACHED_END_OF_TOPIC' and list_contains(s.topics, f.topic)
                    and abs(epoch_us(f.time) - epoch_us(s.time)) <= {AT_ONCE_US})
            and not exists (
                select 1 from exchanges s where s.error_name like '{QUOTA}%' and list_contains(s.topics, f.topic)
                    and epoch_us(s.time) - epoch_us(f.time) between 0 and {MOVE_US})
    ), numbered as (
        select *, case when at_us - lag(at_us) over (partition by topic order by at_us, packet) <= {AT_ONCE_US}
            then 0 else 1 end as begins
        from closed
    ), moves as (
        select topic, move, min(time) as time, min(at_us) as at_us, any_value(named) as named, min(server) as was,
            arg_min(file, row(at_us, packet)) as file, arg_min(packet, row(at_us, packet)) as packet
        from (select *, sum(begins) over (partition by topic order by at_us, packet) as move from numbered) group by all
    ), opened as (
        select unnest(topics) as topic, server, client, api, time, until, response_file as file,
            response_packet as packet
        from v_calls where protocol = 'pulsar' and kind = 'call' and status = 'ok' and api in ('PRODUCER', 'SUBSCRIBE')
    ), again as (
        select m.topic, m.move, o.client, o.api, min(o.until) as until, arg_min(o.server, o.until) as now,
            arg_min(o.file, o.until) as file, arg_min(o.packet, o.until) as packet
        from moves m join opened o on m.topic = o.topic and epoch_us(o.until) > m.at_us
            and epoch_us(o.until) <= m.at_us + {MOVE_US}
            and not exists (
                select 1 from opened p where p.topic = m.topic and p.api = 'PRODUCER'
                    and epoch_us(p.time) < m.at_us and epoch_us(p.until) > m.at_us)
        group by all
    )
    select m.*, a.client, a.api, a.until, a.now, a.file as again_file, a.packet as again_packet,
        (epoch_us(a.until) - m.at_us) * 1000 as out_ns
    from moves m join again a using (topic, move)"""
_IN_ORDER = "at_us, until, client, api"
# by topic how often brokers refused it while it was out, and what they said most
_REFUSED = f"""
    select o.topic, count(*) as count, mode(coalesce(e.message, e.name)) as words
    from (
        select topic, min(at_us) as since_us, last(epoch_us(until) order by {_IN_ORDER}) as until_us
        from v_outages group by topic
    ) o join (select site, exchange_id, unnest(list_distinct(topics)) as topic from v_calls) c on c.topic = o.topic
        join v_errors e on e.site = c.site and e.exchange_id = c.exchange_id
            and epoch_us(e.time) between since_us and until_us
    group by o.topic"""


@needs(SomeRows("events", "kind in ('closed_by_broker', 'migrated')"))
def topic_moved(capture: Capture) -> Iterator[Ruling]:
    """Topics that moved: between which brokers, how long who was out, what was sent again.

    Those that went the same way at the same time, as a bundle's do, are one, and quick ones soon after each other.
    """
    if not capture.keep("v_outages", _MOVES):
        return
    by_topic: dict[str, list[Row]] = {}
    for row in capture.rows(f"select * from v_outages order by topic, {_IN_ORDER}"):
        by_topic.setdefault(row["topic"], []).append(row)
    refused = {row["topic"]: row for row in capture.rows(_REFUSED)}
    alike: dict[tuple[tuple[str, ...], bool], list[list[str]]] = defaultdict(list)
    for topic, rows in sorted(by_topic.items(), key=lambda item: item[1][0]["at_us"]):
        quick = len(way := tuple(_way(rows))) == 2 and max(one["out_ns"] for one in rows) < SLOW_NS
        at_us = rows[0]["at_us"] - (SOON_US if quick else AT_ONCE_US)  # load managers move one after the other
        some = alike[way, quick]
        if not some or by_topic[some[-1][-1]][0]["at_us"] < at_us or len(some[-1]) == LISTED:
            some.append([])
        some[-1].append(topic)
    for (way, quick), many in alike.items():
        for topics in many:
            rows = sorted((row for topic in topics for row in by_topic[topic]), key=lambda row: row["at_us"])
            told = [refused[topic] for topic in topics if topic in refused and not quick]
            yield from _told(capture, topics, way, rows, told, quick)


def _told(
    capture: Capture, topics: list[str], way: Sequence[str], rows: list[Row], refused: list[Row], quick: bool
) -> Iterator[Ruling]:
    closes = f"""
        select * from v_noted
        where event in ('closed_by_broker', 'migrated') and list_has_any(topics, list_value{sql_list(topics)})"""
    moves: dict[tuple[str, int], list[Row]] = {}
    for one in rows:
        moves.setdefault((one["topic"], one["move"]), []).append(one)
    out = [max(move, key=lambda one: (one["api"] == "PRODUCER", one["out_ns"])) for move in moves.values()]
    often = say.times(len(moves) // len(topics))
    if len(set(way)) > 1:
        moved = f"moved {often} ({_named(way)})"
    else:
        moved = f"{'was' if len(topics) == 1 else 'were'} unloaded and loaded again {often} by {way[0]}"
    clients = who.of([one["client"] for one in out])
    again = resent(capture, f"topic in {sql_list(topics)}", rows[0]["at_us"], rows[-1]["at_us"] + MOVE_US)
    why = ""
    if refused:
        count = say.times(sum(row["count"] for row in refused))
        why = f"; brokers answered {count} meanwhile: {say.words(refused[0]['words'])}"
    for row in capture.together(closes):
        brokers = sorted({*row["servers"], *filter(None, way)})
        row |= {"cost_ns": sum(one["out_ns"] for one in out), "servers": brokers}
        row["last_time"], named = max(one["until"] for one in rows), say.named(topics, "topic")
        yield Ruling(
            "topic_moved",
            f"{named[0].upper()}{named[1:]} {moved}; {say.clients(clients)} {say.verb(clients, 'was', 'were')} out "
            f"{say.most(len(out), max(one['out_ns'] for one in out))}{why}.",
            row,
            again.text or None,
            NOTE if quick else None,
            "See the log of the broker that refused it at that time." if why else None,
            chain=_chain(moves),
        )


def _way(rows: list[Row]) -> list[str]:
    """The brokers of one topic, one after the other."""
    return [rows[0]["was"], *{row["move"]: row["now"] for row in rows}.values()]


def _chain(moves: dict[tuple[str, int], list[Row]]) -> list[Link]:
    links = []
    for move in moves.values():
        first = move[0]
        to = f"; it names {say.broker(first['named'])}" if first["named"] else ""
        links.append(Link(first["time"], f"broker {first['was']} closes it{to}", first["file"], first["packet"]))
        for one in move:
            text = (
                f"{one['api']} of {say.client(one['client'])} answered by {one['now']} after {say.span(one['out_ns'])}"
            )
            links.append(Link(one["until"], text, one["again_file"], one["again_packet"]))
    return links[:LINKS]


def _named(brokers: Sequence[str]) -> str:
    """`:6652, :6650, :6652`; whole addresses where hosts differ."""
    hosts = {broker.rpartition(":")[0] for broker in brokers}
    names = [f":{broker.rpartition(':')[2]}" if len(hosts) == 1 else broker for broker in brokers]
    return ", ".join(names[:5]) + (" …" if len(names) > 5 else "")
