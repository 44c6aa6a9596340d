"""Consumer groups along time: who joined, who left, how long a rebalance took, and the lag where it is known.

Kafka       classic groups by JoinGroup and LeaveGroup, their rebalances as the table `rebalances` has them;
            consumer, share and streams groups by heartbeats, in which a member that begins has epoch 0 and one that
            leaves has epoch -1 or -2
Pulsar      subscriptions: SUBSCRIBE, CLOSE_CONSUMER, UNSUBSCRIBE; SEEK, for which a broker closes its consumers for
            a moment; ACTIVE_CONSUMER_CHANGE, which says who of a failover subscription gets messages;
            REACHED_END_OF_TOPIC
Iggy        JOIN_CONSUMER_GROUP and LEAVE_CONSUMER_GROUP

A group of Kafka has a name of its own in the cluster. A subscription belongs to a topic, whose partitions share it; a
group of Iggy to a topic of a stream: of one name there may be many. Lag is as the table `lag` has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.answers.records import Relations, Row, body, query
from pipelines.formats import units
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import LAG
from pipelines.tables.rebalances import REBALANCES
from pipelines.tables.table import Ask

TABLES = ("exchanges", "batches", "connections", "findings", "positions")
JOINED, LEFT, REBALANCED, REFUSED = "joined", "left", "rebalanced", "refused"
SEEKED, ACTIVE, STANDBY, ENDED = "seeked", "active", "standby", "ended"
HEARTBEATS = frozenset({"ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat"})
LEAVING = frozenset({-1, -2})
COMMITS = ("OffsetCommit", "TxnOffsetCommit")
PULSAR_IN, PULSAR_OUT = "SUBSCRIBE", frozenset({"CLOSE_CONSUMER", "UNSUBSCRIBE"})
SEEK, ACTIVE_CHANGE, TOPIC_END = "SEEK", "ACTIVE_CONSUMER_CHANGE", "REACHED_END_OF_TOPIC"
EARLIEST, LATEST = (1 << 64) - 1, (1 << 63) - 1  # ledgers of Pulsar that stand for the ends of a topic
IGGY_IN, IGGY_OUT = "JOIN_CONSUMER_GROUP", "LEAVE_CONSUMER_GROUP"
IGGY_NAMING = ("CREATE_CONSUMER_GROUP", "GET_CONSUMER_GROUP")  # whose answers say which name a number has
APIS = (
    "JoinGroup", "SyncGroup", "LeaveGroup", *COMMITS, *sorted(HEARTBEATS), PULSAR_IN,
    *sorted(PULSAR_OUT), SEEK, ACTIVE_CHANGE, TOPIC_END, IGGY_IN, IGGY_OUT, *IGGY_NAMING,
)  # fmt: skip
"""What is looked at; `full` bodies are needed of these."""
_Key = tuple[str, str | None, str]  # protocol, topic, name
_Consumer = tuple[str, int | None]  # connection, consumer id


class GroupEvent(NamedTuple):
    """Something that happened to a group."""

    time: datetime  # when the request began, or the push
    group: str
    what: str  # JOINED, LEFT, REBALANCED, REFUSED, SEEKED, ACTIVE, STANDBY or ENDED
    member: str  # its id, or `ip:port` where members have none; "" where it is about all of them
    text: str
    took_ns: int | None
    file: str | None  # where the request lies, or the push
    packet: int | None


@dataclass
class Group:
    """One group, and what happened to it."""

    protocol: str
    name: str
    kind: str
    topic: str | None = None  # that it belongs to; None for Kafka
    events: list[GroupEvent] = field(default_factory=list)
    members: dict[str, str] = field(default_factory=dict)  # id -> the client that it is
    consumers: dict[str, dict[str | None, _Consumer]] = field(default_factory=dict)  # member -> partition -> consumer
    most: int = 0  # members at once
    generation: int | None = None
    lag: int | None = None
    seeking: datetime | None = None  # until when the broker closes consumers because one of them seeks

    def join(self, member: str, client: str | None) -> None:
        """A member is in."""
        self.members[member] = client or ""
        self.most = max(self.most, len(self.members))

    def row(self) -> Row:
        """One line about it."""
        times = [event.took_ns for event in self.events if event.what == REBALANCED and event.took_ns is not None]
        return {
            "protocol": self.protocol,
            "group": self.name,
            "topic": self.topic,
            "kind": self.kind,
            "members": self.most,
            "joined": sum(event.what == JOINED for event in self.events),
            "left": sum(event.what == LEFT for event in self.events),
            "rebalances": sum(event.what == REBALANCED for event in self.events),
            "longest_ns": max(times, default=None),
            "generation": self.generation,
            "lag": self.lag,
        }


def only_groups(batches: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Record batches without the exchanges that say nothing of groups: bodies of all would not fit in memory."""
    wanted = pa.array(APIS)
    for table, batch in batches:
        yield table, batch.filter(pc.is_in(batch.column("api"), wanted)) if table == "exchanges" else batch


def groups(tables: Relations) -> list[Group]:
    """The groups, in order of appearance, each with its events in time order.

    tables: `exchanges` with bodies (at least those of APIS), and `batches`.
    """
    found: dict[_Key, Group] = {}
    wanted = ", ".join("?" for _ in APIS)
    rows = query(
        tables,
        f"SELECT * FROM exchanges WHERE api IN ({wanted}) AND kind IN ('call', 'oneway', 'unanswered', 'push') "
        "ORDER BY time, length(exchange_id), exchange_id",  # by place in the stream where a packet holds several
        APIS,
    )
    names = _names(rows)
    for row in rows:
        request, response = _bodies(row)
        reader = _reader(row, request, names)
        if reader is None:
            continue
        name, kind, take = reader
        topic = _topic(row)
        key = row["protocol"], topic, name
        group = found.setdefault(key, Group(row["protocol"], name, kind, topic))
        group.kind = group.kind if row["api"] in COMMITS else kind  # members of any kind commit
        take(group, row, request, response)
    for row in query(tables, REBALANCES.query(DuckDB(), Ask())):
        if (of := found.get((row["protocol"], None, row["group"]))) is not None:
            text = f"{row['cause']}, {units.counted(row['members_after'], 'member')}"
            of.events.append(
                GroupEvent(row["time"], of.name, REBALANCED, "", text, row["duration_ns"], row["file"], row["packet"])
            )
    for behind in _lag(tables, names):
        topic = None if behind["protocol"] == "kafka" else behind["topic"]
        late = found.get((behind["protocol"], topic, behind["group"]))
        if late is not None and behind["messages"] is not None:
            late.lag = (late.lag or 0) + behind["messages"]
    for group in found.values():
        group.events.sort(key=lambda event: event.time)
    return list(found.values())


def lag(tables: Relations) -> list[Row]:
    """Where each group stood last in each partition, and how late it ever was: rows of the table `lag`.

    `longest_ns` and `most_messages` are the largest of `lag_ns` and `messages` along time. tables: as for `groups`.
    """
    wanted = ", ".join("?" for _ in IGGY_NAMING)
    return _lag(tables, _names(query(tables, f"SELECT * FROM exchanges WHERE api IN ({wanted})", IGGY_NAMING)))


def _lag(tables: Relations, names: _Names) -> list[Row]:
    place = 'protocol, "group", topic, partition'
    rows = query(
        tables,
        f"""
        SELECT * EXCLUDE (nth) FROM (
            SELECT *, max(lag_ns) OVER place AS longest_ns, max(messages) OVER place AS most_messages,
                row_number() OVER (PARTITION BY {place} ORDER BY bucket DESC) AS nth
            FROM ({LAG.query(DuckDB(), Ask())}) WINDOW place AS (PARTITION BY {place})
        ) WHERE nth = 1 ORDER BY protocol, "group", topic, partition NULLS LAST""",
    )
    for row in rows:
        if row["protocol"] == "iggy" and row["group"].isdecimal():
            row["group"] = names.get((row["topic"], int(row["group"])), row["group"])
    return rows


_Take = Callable[[Group, Row, Mapping[str, Any], Mapping[str, Any]], None]
_Names = Mapping[tuple[str | None, int], str]  # (topic, number of a group of Iggy) -> its name


def _reader(row: Row, request: Mapping[str, Any], names: _Names) -> tuple[str, str, _Take] | None:
    """(name of the group, its kind, what reads the exchange), if there is a group."""
    api, name = row["api"], row["group"] or request.get("groupId")
    if not name:
        return None
    if api in HEARTBEATS:
        return name, api.removesuffix("GroupHeartbeat").lower(), _heartbeat
    if api not in _READERS:
        return None
    if isinstance(number := request.get("group_id"), int):
        name = names.get((_topic(row), number), name)
    return name, *_READERS[api]


def _bodies(row: Row) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    return body(row["request"]), body(row["response"])


def _topic(row: Row) -> str | None:
    """The topic that the group of a request belongs to."""
    return None if row["protocol"] == "kafka" else ", ".join(row["topics"] or ()) or None


def _names(rows: Iterable[Row]) -> _Names:
    """The names of Iggy's groups, wherever the capture says them."""
    answers = ((_topic(row), _bodies(row)[1]) for row in rows if row["api"] in IGGY_NAMING and row["status"] == "ok")
    return {(topic, answer["id"]): answer["name"] for topic, answer in answers if answer.keys() >= {"id", "name"}}


def _join(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    member = response.get("memberId") or request.get("memberId") or ""
    if row["status"] == "error":
        if row["error_name"] != "MEMBER_ID_REQUIRED":
            group.events.append(_event(group, row, REFUSED, member, row["error_name"] or "", None))
        return
    generation = response.get("generationId")
    if member and member not in group.members:
        group.join(member, row["client_id"])
        group.events.append(_event(group, row, JOINED, member, f"as {row['client_id']}", row["total_ns"]))
    if generation is not None and (group.generation is None or generation > group.generation):
        group.generation = generation


def _leave(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    members = [m.get("memberId") for m in request.get("members") or ()] or [request.get("memberId")]
    for member in filter(None, members):
        group.events.append(_event(group, row, LEFT, member, group.members.pop(member, "") or "", None))


def _heartbeat(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    member = response.get("memberId") or request.get("memberId") or ""
    sent, answered = request.get("memberEpoch"), response.get("memberEpoch")
    if row["status"] == "error":
        group.events.append(_event(group, row, REFUSED, member, row["error_name"] or "", None))
    elif sent in LEAVING:
        if group.members.pop(member, None) is not None:
            group.events.append(_event(group, row, LEFT, member, row["client_id"] or "", None))
    elif sent == 0 and member not in group.members:
        group.join(member, row["client_id"])
        group.events.append(_event(group, row, JOINED, member, f"as {row['client_id']}", row["total_ns"]))
    if answered is not None and answered > (group.generation or 0):
        group.generation = answered


def _commit(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    """A commit shows that there is a group; which offsets it commits, the table `lag` knows."""


def _subscribe(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    if row["status"] == "error":
        _refuse(group, row)
    elif row["status"] == "ok":  # of a request without an answer, neither is known
        member = _member(row)
        group.consumers.setdefault(member, {})[request.get("topic")] = _consumer(row, request)
        if member not in group.members:
            group.join(member, row["client_id"])
            group.events.append(_event(group, row, JOINED, _place(row), _said(row, _topic_of(group)), row["total_ns"]))


def _unsubscribe(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    if row["status"] == "error":
        _refuse(group, row)
        return
    member, consumer = _member(row), _consumer(row, request or response)
    had = group.consumers.get(member)  # None: it came before the capture began
    left = group.consumers[member] = {part: one for part, one in (had or {}).items() if one != consumer}
    if left or had == {}:  # a partition remains, or none did
        return
    group.members.pop(member, None)
    text = _topic_of(group)
    if row["kind"] == "push":
        seeks = group.seeking is not None and row["time"] <= group.seeking
        text = "closed by the broker, to seek" if seeks else "closed by the broker"
    group.events.append(_event(group, row, LEFT, _place(row), _said(row, text), row["total_ns"]))


def _ended(row: Row) -> datetime | None:
    """When the last byte of the answer came; None where there is none."""
    return None if row["total_ns"] is None else row["time"] + timedelta(microseconds=row["total_ns"] // 1000)


def _seek(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    if row["status"] == "error":
        _refuse(group, row)
        return
    group.seeking = _ended(row) or row["time"]
    group.events.append(_event(group, row, SEEKED, _place(row), _said(row, _target(request)), row["total_ns"]))


def _target(seek: Mapping[str, Any]) -> str:
    """Where a SEEK goes to: an end of the topic, a position or a time of publishing; "" where it is not known."""
    if (position := seek.get("message_id")) is not None:
        ends = {EARLIEST: "to the earliest message", LATEST: "to the latest message"}
        ledger, entry = position.get("ledgerId"), position.get("entryId")
        return ends.get(ledger, f"to {ledger}:{entry}")
    if (published := seek.get("message_publish_time")) is None:
        return ""
    try:
        time = datetime.fromtimestamp(published / 1000, UTC)
    except (OverflowError, OSError, ValueError):
        return f"to messages published from {published} ms on"
    return f"to messages published from {time:%Y-%m-%d %H:%M:%S} on"


def _change(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    active = response.get("is_active", False)
    text = "gets the messages from now on" if active else "waits: another consumer gets the messages"
    group.events.append(_event(group, row, ACTIVE if active else STANDBY, _place(row), _said(row, text), None))


def _end(group: Group, row: Row, request: Mapping[str, Any], response: Mapping[str, Any]) -> None:
    text = "the topic was terminated, and all its messages are acknowledged"
    group.events.append(_event(group, row, ENDED, _place(row), _said(row, text), None))


def _refuse(group: Group, row: Row) -> None:
    group.events.append(_event(group, row, REFUSED, _place(row), _said(row, row["error_name"] or ""), row["total_ns"]))


def _topic_of(group: Group) -> str:
    return (group.topic or "").removeprefix("persistent://")


def _member(row: Row) -> str:
    """Who consumes, of protocols without member ids: Pulsar's consumers of all partitions have one name."""
    return f"{row['client_ip']} {row['client_id']}" if row["protocol"] == "pulsar" and row["client_id"] else _place(row)


def _said(row: Row, text: str) -> str:
    """What an event says, with the name of the consumer that it happens to, if it has one: `c-1: to 7:5`."""
    name = row["client_id"] if row["protocol"] == "pulsar" else None
    return ": ".join(filter(None, (name, text)))


def _place(row: Row) -> str:
    return f"{row['client_ip']}:{row['client_port']}"


def _consumer(row: Row, body: Mapping[str, Any]) -> _Consumer:
    return row["connection"], body.get("consumer_id")


_READERS: dict[str, tuple[str, _Take]] = {
    "JoinGroup": ("classic", _join),
    "LeaveGroup": ("classic", _leave),
    **dict.fromkeys(COMMITS, ("classic", _commit)),
    PULSAR_IN: ("subscription", _subscribe),
    **dict.fromkeys(PULSAR_OUT, ("subscription", _unsubscribe)),
    SEEK: ("subscription", _seek),
    ACTIVE_CHANGE: ("subscription", _change),
    TOPIC_END: ("subscription", _end),
    IGGY_IN: ("consumer group", _subscribe),
    IGGY_OUT: ("consumer group", _unsubscribe),
}


def _event(group: Group, row: Row, what: str, member: str, text: str, took: int | None) -> GroupEvent:
    side = "response" if row["kind"] == "push" else "request"
    return GroupEvent(row["time"], group.name, what, member, text, took, row[f"{side}_file"], row[f"{side}_packet"])
