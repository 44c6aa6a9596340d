"""What an operator should know of a client, and only a capture can tell: findings at the end of a connection.

    removed_in_4_0       APIs and versions that brokers refuse since Kafka 4.0
    old_message_format   messages of magic 0 or 1, which brokers must convert
    not_idempotent       batches without a producer id: a retry may write them twice
    unbatched            nearly every batch holds one message
    useless_compression  compressed batches are as large as what is in them
    duplicate_sequence   a batch that was not refused was sent again with the same sequence number
    rebalance_storm      a group's members join again and again
    frequent_commits     offsets are committed many times a second

Severity is info where it is a matter of taste, warning where it costs or loses something.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from dissectors.conversation import Frame
from dissectors.kafka.batches import Unit
from dissectors.kafka.skim import Topic

if TYPE_CHECKING:
    from dissectors.kafka.match import Call, Seen

_MANY = 20  # batches or commits below which nothing is said of a habit
_MOSTLY = 0.9  # share of batches with one message that makes a producer unbatched
_USELESS = 0.98  # stored size against uncompressed size
_COMMITS_A_SECOND = 5
_JOINS, _JOINS_NS = 5, 60_000_000_000  # so many in so much time are a storm
_SEQUENCES = 1 << 16  # sequence numbers remembered on one connection
_GROUPS = 1000  # groups counted on one connection
_SECOND = 1_000_000_000
_Key = TypeVar("_Key")


class Where(NamedTuple):
    """Where something was first seen; a frame would pin its bytes."""

    direction: int
    time: int
    place: int
    offset: int


class Advice(NamedTuple):
    """One finding."""

    kind: str
    severity: str
    message: str
    first: Where
    evidence: dict[str, Any]


class Tally:
    """How often something was seen, and where first."""

    __slots__ = ("count", "first", "last_ns", "more")

    def __init__(self, frame: Frame) -> None:
        self.count = 0
        self.first = Where(frame.direction, frame.first_ns, frame.place, frame.offset)
        self.last_ns = frame.first_ns
        self.more: dict[str, Any] = {}


class Watch:
    """Keeps count on one connection."""

    def __init__(self) -> None:
        self._removed: dict[tuple[str, int], Tally] = {}
        self._old: dict[tuple[str, int], Tally] = {}
        self._plain: Tally | None = None
        self._produced: Tally | None = None
        self._packed: Tally | None = None
        self._repeated: Tally | None = None
        self._joins: dict[str, list[int]] = {}
        self._joined: dict[str, Tally] = {}
        self._commits: dict[str, Tally] = {}
        self._sequences: dict[tuple[int, int, Topic, int], int] = {}

    # --- what is seen ---

    def request(self, frame: Frame, call: Call) -> None:
        """A request of any API."""
        said = call.spoken
        assert said is not None
        if said.removed:
            _count(self._removed, (said.api, said.version), frame)
        if said.api == "OffsetCommit" and len(self._commits) < _GROUPS:
            _count(self._commits, str(call.values.get("groupId")), frame).last_ns = frame.first_ns

    def joined(self, frame: Frame, group: str, generation: int | None) -> None:
        """A member has joined its group."""
        if len(self._joined) >= _GROUPS:
            return
        tally = _count(self._joined, group, frame)
        tally.more.setdefault("first_generation", generation)
        tally.more["last_generation"] = generation
        times = self._joins.setdefault(group, [])
        times.append(frame.first_ns)
        if times[-1] - times[0] > _JOINS_NS or len(times) > _MANY:
            times.pop(0)
        tally.more["most"] = max(tally.more.get("most", 0), len(times))

    def batches(self, frame: Frame, role: str, topic: Topic, partition: int, seen: Sequence[Seen]) -> None:
        """Batches of a partition, sent or received."""
        for batch in seen:
            unit = batch.unit
            if unit.magic < 2:
                _count(self._old, (role, unit.magic), frame)
            if unit.codec != "none" and batch.uncompressed:
                tally = self._packed = self._packed or Tally(frame)
                tally.count += 1
                tally.more["stored"] = tally.more.get("stored", 0) + unit.end - unit.body
                tally.more["uncompressed"] = tally.more.get("uncompressed", 0) + batch.uncompressed
            if role == "produce":
                self._sent(frame, topic, partition, unit)

    def _sent(self, frame: Frame, topic: Topic, partition: int, unit: Unit) -> None:
        tally = self._produced = self._produced or Tally(frame)
        tally.count += 1
        if unit.records == 1:
            tally.more["single"] = tally.more.get("single", 0) + 1
        if unit.magic == 2 and unit.producer_id < 0:
            self._plain = self._plain or Tally(frame)
            self._plain.count += 1
        if unit.base_sequence >= 0 and unit.producer_id >= 0:
            key = (unit.producer_id, unit.producer_epoch, topic, partition)
            if self._sequences.get(key) == unit.base_sequence:
                self._repeated = self._repeated or Tally(frame)
                self._repeated.count += 1
            elif key in self._sequences or len(self._sequences) < _SEQUENCES:
                self._sequences[key] = unit.base_sequence

    def refused(self, topic: Topic, partition: int, seen: Sequence[Seen]) -> None:
        """The broker refused batches: the client must send them again, with the same sequence numbers."""
        for batch in seen:
            unit = batch.unit
            key = (unit.producer_id, unit.producer_epoch, topic, partition)
            if self._sequences.get(key) == unit.base_sequence:
                del self._sequences[key]

    # --- what is made of it ---

    def findings(self) -> Iterator[Advice]:
        """The advice, at the end of the connection."""
        for (api, version), tally in self._removed.items():
            text = f"{api} version {version} is refused by brokers since Kafka 4.0; used {tally.count} times"
            more = {"api": api, "version": version, "count": tally.count}
            yield Advice("removed_in_4_0", "warning", text, tally.first, more)
        for (role, magic), tally in self._old.items():
            text = f"{tally.count} batches ({role}) have message format {magic}, which brokers must convert"
            more = {"role": role, "magic": magic, "count": tally.count}
            yield Advice("old_message_format", "warning", text, tally.first, more)
        yield from self._of_producers()
        for group, tally in self._joined.items():
            if tally.more["most"] >= _JOINS:
                text = f"A member of group {group} joined {tally.more['most']} times within a minute"
                yield Advice("rebalance_storm", "warning", text, tally.first, {"group": group, **tally.more})
        for group, tally in self._commits.items():
            span = tally.last_ns - tally.first.time
            if tally.count >= _MANY and span > 0 and tally.count * _SECOND > _COMMITS_A_SECOND * span:
                rate = round(tally.count * _SECOND / span, 1)
                text = f"Group {group} commits offsets {rate} times a second"
                more = {"group": group, "count": tally.count, "per_second": rate}
                yield Advice("frequent_commits", "info", text, tally.first, more)

    def _of_producers(self) -> Iterator[Advice]:
        plain, sent, packed, repeated = self._plain, self._produced, self._packed, self._repeated
        if plain:
            what = "A batch was" if plain.count == 1 else f"{plain.count} batches were"
            text = f"{what} produced without idempotence: a retry may write it twice"
            yield Advice("not_idempotent", "info", text, plain.first, {"count": plain.count})
        if sent and sent.count >= _MANY and sent.more.get("single", 0) >= _MOSTLY * sent.count:
            text = f"{sent.more['single']} of {sent.count} batches hold one message: batching would save work"
            more = {"single": sent.more["single"], "count": sent.count}
            yield Advice("unbatched", "info", text, sent.first, more)
        if packed and packed.count >= _MANY and packed.more["stored"] >= _USELESS * packed.more["uncompressed"]:
            text = f"Compression saves nothing in {packed.count} batches"
            yield Advice("useless_compression", "info", text, packed.first, {"count": packed.count, **packed.more})
        if repeated:
            what = "A batch was" if repeated.count == 1 else f"{repeated.count} batches were"
            text = f"{what} sent again with the sequence number of the one before"
            yield Advice("duplicate_sequence", "warning", text, repeated.first, {"count": repeated.count})


def _count(tallies: dict[_Key, Tally], key: _Key, frame: Frame) -> Tally:
    tally = tallies.get(key)
    if tally is None:
        tally = tallies[key] = Tally(frame)
    tally.count += 1
    return tally
