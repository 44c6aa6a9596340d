"""What an operator should know of a client, and only a capture shows: findings at the end of a connection.

    removed_in_4_0       APIs and versions that brokers refuse since Kafka 4.0
    old_message_format   messages of magic 0 or 1, which brokers must convert
    not_idempotent       batches without a producer id that wait for an answer: a retry may write them twice
    unbatched            nearly every batch holds one message
    useless_compression  compressed batches are as large as what is in them
    duplicate_sequence   a batch that was not refused was sent again with the same sequence number
    rebalance_storm      a group's members join again and again
    frequent_commits     offsets are committed many times a second
    head_of_line         requests waited behind others of their own connection, mostly behind a fetch that was held

and what single requests and answers say that no column holds: findings of their frames, for verdicts.

    transaction_aborted  an EndTxn that gave a transaction up
    not_accepted         acknowledgements of a share group that release or reject messages
    member_epoch         a heartbeat's answer with a new epoch: the group has rebalanced

Severity is info where it is a matter of taste, warning where it costs or loses something.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dissectors.frame import Frame, FrameFacts
from dissectors.kafka.body_notes import Topic
from dissectors.kafka.decode import (
    END_TXN,
    HEARTBEATS,
    JOIN_GROUP,
    OFFSET_COMMIT,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    ApiVersion,
)
from dissectors.rows.exchange import PRODUCE
from dissectors.wording import counted, were

if TYPE_CHECKING:
    from dissectors.kafka.pending import KafkaRequest, VerifiedBatch

_MANY = 20  # batches or commits below which nothing is said of a habit
_MOSTLY = 0.9  # share of batches with one message that makes a producer unbatched
_USELESS = 0.98  # stored size against uncompressed size
_COMMITS_A_SECOND = 5
_JOINS, _JOINS_NS = 8, 60_000_000_000  # so many in so much time are a storm; a Connect worker starts with some five
QUEUED_NS = 10_000_000  # a request that waited so long behind others …
_QUEUED = 5  # … so many times, is worth a finding
_SEQUENCES = 1 << 16  # sequence numbers remembered on one connection
_GROUPS = 1000  # groups counted on one connection
_SECOND = 1_000_000_000
_EPOCHS = 1000  # members of groups whose epoch is remembered on one connection
_RELEASE, _REJECT = 2, 3  # acknowledge types of a share group
ACKNOWLEDGING = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
"""APIs whose requests acknowledge messages of a share group."""
INSPECTED = frozenset({JOIN_GROUP, END_TXN, SHARE_ACKNOWLEDGE, *HEARTBEATS})
"""APIs of which every exchange is looked at, one by one."""
_NO_TALLIES: dict[Any, Tally] = {}  # never added to
ProducerKey = tuple[int, int, Topic | None, int]
"""Producer id, its epoch, topic, partition."""


class Where(NamedTuple):
    """Where something was first seen; a frame would pin its bytes."""

    direction: int
    time: int
    packet_ref: int
    offset: int


_NOWHERE = Where(0, 1 << 63, 0, 0)  # nothing was seen yet


class Advice(NamedTuple):
    """One finding."""

    kind: str
    message: str
    first: Where
    evidence: dict[str, Any]


class Remark(NamedTuple):
    """One finding about the frame that is at hand."""

    kind: str
    message: str
    evidence: dict[str, Any]


class Tally:
    """How often something was seen, and where first."""

    __slots__ = ("count", "first", "last_ns", "more", "times")

    def __init__(self) -> None:
        self.count = 0
        self.first = _NOWHERE
        self.last_ns = 0
        self.more: dict[str, Any] = {}
        self.times: list[int] = []  # of the last joins

    def add(self, frame: Frame | FrameFacts, times: int = 1) -> None:
        """It was seen so often, in this frame first."""
        self.count += times
        if (frame.first_ns, frame.packet_ref) < (self.first.time, self.first.packet_ref):
            self.first = Where(frame.direction, frame.first_ns, frame.packet_ref, frame.offset)

    def sum(self, name: str, value: int) -> None:
        """Add to a number that goes with it."""
        self.more[name] = self.more.get(name, 0) + value


_NEVER = Tally()


class _Sent(NamedTuple):
    """The newest batch of a producer to a partition."""

    number: int
    order: int  # at which it came
    refused: int = -1  # order of the answer that refused a batch of this number; it may be known before the batch is


class KafkaDiagnostics:
    """Keeps count on one connection; of one frame, or of many at once, of which the first is given."""

    __slots__ = ("_epochs", "_sequences", "_tallies")

    def __init__(self) -> None:
        self._tallies: dict[str, dict[Any, Tally]] = {}  # by kind of advice; what it is of
        self._sequences: dict[ProducerKey, _Sent] = {}
        self._epochs: dict[tuple[str, str], int] = {}  # (group, member) -> the newest

    def _of(self, kind: str) -> dict[Any, Tally]:
        return self._tallies.get(kind, _NO_TALLIES)

    def _tally(self, kind: str, of: Any = None) -> Tally:
        tallies = self._tallies.setdefault(kind, {})
        tally = tallies.get(of)
        if tally is None:
            tally = tallies[of] = Tally()
        return tally

    def _total(self, kind: str) -> Tally:
        return self._of(kind).get(None, _NEVER)

    # --- what is seen ---

    def request(self, frame: Frame, call: KafkaRequest) -> None:
        """A request of any API."""
        api = call.api_version
        assert api is not None
        if api.removed:
            self.removed(api, frame)
        if api.key == OFFSET_COMMIT:
            self.committed(call.values.get("groupId"), frame, frame.first_ns)

    def removed(self, api: ApiVersion, first: Frame | FrameFacts, times: int = 1) -> None:
        """Requests that brokers refuse since Kafka 4.0."""
        self._tally("removed_in_4_0", (api.name, api.version)).add(first, times)

    def committed(self, group: str | None, first: Frame | FrameFacts, last_ns: int, times: int = 1) -> None:
        """Offsets of a group, if it is known, were committed, the last time at last_ns."""
        known = self._of("frequent_commits")
        if group is not None and (group in known or len(known) < _GROUPS):
            tally = self._tally("frequent_commits", group)
            tally.add(first, times)
            tally.last_ns = max(tally.last_ns, last_ns)

    def joined(self, frame: Frame, group: str | None, generation: int | None) -> None:
        """A member has joined its group, if it is known."""
        if group is None or len(self._of("rebalance_storm")) >= _GROUPS:
            return
        tally = self._tally("rebalance_storm", group)
        tally.add(frame)
        tally.more.setdefault("first_generation", generation)
        tally.more["last_generation"] = generation
        times = tally.times
        times.append(frame.first_ns)
        if times[-1] - times[0] > _JOINS_NS or len(times) > _MANY:
            times.pop(0)
        tally.more["most"] = max(tally.more.get("most", 0), len(times))

    def batches(
        self,
        frame: Frame,
        role: str,
        topic: Topic | None,
        partition: int,
        seen: Sequence[VerifiedBatch],
        *,
        answered: bool = True,
    ) -> None:
        """Batches of a partition, sent or received. answered: who sends without an answer does not send again."""
        for batch in seen:
            unit = batch.unit
            if unit.magic < 2:
                self._tally("old_message_format", (role, unit.magic)).add(frame)
            if unit.codec != "none" and batch.uncompressed:
                self.packed(frame, 1, unit.end - unit.body, batch.uncompressed)
            if role == PRODUCE:
                if unit.magic == 2:  # older messages are no batches
                    self.sent(frame, 1, int(unit.records == 1))
                if answered and unit.magic == 2 and unit.producer_id < 0:
                    self.not_idempotent(frame, 1)
                if unit.base_sequence >= 0 and unit.producer_id >= 0:
                    key = (unit.producer_id, unit.producer_epoch, topic, partition)
                    self.sequences(key, unit.base_sequence, unit.base_sequence, frame, (), frame.order)

    def packed(self, first: Frame | FrameFacts, times: int, stored: int, uncompressed: int) -> None:
        """Compressed batches, and their bytes."""
        tally = self._tally("useless_compression")
        tally.add(first, times)
        tally.sum("stored", stored)
        tally.sum("uncompressed", uncompressed)

    def sent(self, first: Frame | FrameFacts, times: int, single: int) -> None:
        """Batches produced, and how many of them hold one message."""
        tally = self._tally("unbatched")
        tally.add(first, times)
        tally.sum("single", single)

    def not_idempotent(self, first: Frame | FrameFacts, times: int) -> None:
        """Batches produced without a producer id."""
        self._tally("not_idempotent").add(first, times)

    def sequences(
        self,
        key: ProducerKey,
        first: int,
        last: int,
        frame: Frame | FrameFacts,
        repeats: Sequence[Frame | FrameFacts],
        order: int,
    ) -> None:
        """Sequence numbers of a producer's batches to a partition: the first, in `frame`, to the last, at `order`.

        repeats: the frames in which one was that of the batch before.
        """
        known = self._sequences.get(key)
        if known is None and len(self._sequences) >= _SEQUENCES:
            return
        again = known is not None and known.number == first and not known.order < known.refused < frame.order
        for repeat in (frame, *repeats) if again else repeats:
            self._tally("duplicate_sequence").add(repeat)
        self._sequences[key] = _Sent(last, order, known.refused if known is not None and known.number == last else -1)

    def refused(self, topic: Topic | None, partition: int, seen: Sequence[VerifiedBatch], order: int) -> None:
        """The answer at `order` refused batches: the client must send them again, with the same sequence numbers."""
        for batch in seen:
            unit = batch.unit
            key = (unit.producer_id, unit.producer_epoch, topic, partition)
            known = self._sequences.get(key)
            if known is not None and known.number == unit.base_sequence:
                self._sequences[key] = known._replace(refused=order)

    def queued(self, request: FrameFacts, api: str, queued_ns: int) -> None:
        """A request, not a fetch, that waited `queued_ns` behind others of its connection."""
        if queued_ns < QUEUED_NS:
            return
        tally = self._tally("head_of_line")
        tally.add(request)
        tally.sum("queued_ns", queued_ns)
        tally.more["longest_ns"] = max(tally.more.get("longest_ns", 0), queued_ns)
        apis = tally.more.setdefault("apis", {})
        apis[api] = apis.get(api, 0) + 1

    # --- what one exchange says ---

    def answered(self, api: ApiVersion, request: Mapping[str, Any], response: Mapping[str, Any]) -> Remark | None:
        """An exchange of INSPECTED without an error. request, response: values of the bodies, by plan.VALUES."""
        if api.key == END_TXN and request.get("committed") == 0:
            id_ = request.get("transactionalId")
            more = {"transactional_id": id_, "producer_id": request.get("producerId")}
            return Remark("transaction_aborted", f"The producer gave up a transaction of {id_}", more)
        if api.key in HEARTBEATS:
            return self._heartbeat(
                request.get("groupId"), response.get("memberId") or request.get("memberId"), response.get("memberEpoch")
            )
        return None

    def _heartbeat(self, group: str | None, member: str | None, epoch: int | None) -> Remark | None:
        """A member hears its epoch; 0 and less say that it leaves, or has none yet."""
        if group is None or member is None or epoch is None:
            return None
        known = self._epochs.get((group, member))
        if epoch <= 0:
            self._epochs.pop((group, member), None)
            return None
        if epoch == known or (known is None and len(self._epochs) >= _EPOCHS):
            return None
        self._epochs[group, member] = epoch
        more = {"group": group, "member": member, "epoch": epoch, "first": known is None}
        return Remark("member_epoch", f"A member of group {group} has epoch {epoch}", more)

    # --- what is made of it ---

    def findings(self) -> Iterator[Advice]:
        """The advice, at the end of the connection."""
        for (api, version), tally in self._of("removed_in_4_0").items():
            text = f"{api} version {version} is refused by brokers since Kafka 4.0; used {counted(tally.count, 'time')}"
            more = {"api": api, "version": version, "count": tally.count}
            yield Advice("removed_in_4_0", text, tally.first, more)
        for (role, magic), tally in self._of("old_message_format").items():
            text = f"{were(tally.count, 'batch')} in message format {magic} ({role}), which brokers must convert"
            more = {"role": role, "magic": magic, "count": tally.count}
            yield Advice("old_message_format", text, tally.first, more)
        yield from self._of_producers()
        tally = self._total("head_of_line")
        if tally.count >= _QUEUED:
            mean = tally.more["queued_ns"] // tally.count // 1_000_000
            text = f"{tally.count} requests waited behind others of their connection, {mean} ms each on average"
            more = {"count": tally.count, **tally.more, "apis": dict(sorted(tally.more["apis"].items()))}
            yield Advice("head_of_line", text, tally.first, more)
        for group, tally in self._of("rebalance_storm").items():
            if tally.more["most"] >= _JOINS:
                text = f"A member of group {group} joined {tally.more['most']} times within a minute"
                yield Advice("rebalance_storm", text, tally.first, {"group": group, **tally.more})
        for group, tally in self._of("frequent_commits").items():
            span = tally.last_ns - tally.first.time
            if tally.count >= _MANY and span > 0 and tally.count * _SECOND > _COMMITS_A_SECOND * span:
                rate = round(tally.count * _SECOND / span, 1)
                text = f"Group {group} commits offsets {rate} times a second"
                more = {"group": group, "count": tally.count, "per_second": rate}
                yield Advice("frequent_commits", text, tally.first, more)

    def _of_producers(self) -> Iterator[Advice]:
        plain, sent, packed, repeated = map(
            self._total, ("not_idempotent", "unbatched", "useless_compression", "duplicate_sequence")
        )
        if plain.count:
            text = f"{were(plain.count, 'batch')} produced without idempotence: retried, a batch may be written twice"
            yield Advice("not_idempotent", text, plain.first, {"count": plain.count})
        if sent.count >= _MANY and sent.more["single"] >= _MOSTLY * sent.count:
            text = f"{sent.more['single']} of {sent.count} batches hold one message: batching would save work"
            more = {"single": sent.more["single"], "count": sent.count}
            yield Advice("unbatched", text, sent.first, more)
        if packed.count >= _MANY and packed.more["stored"] >= _USELESS * packed.more["uncompressed"]:
            text = f"Compression saves nothing in {counted(packed.count, 'batch')}"
            yield Advice("useless_compression", text, packed.first, {"count": packed.count, **packed.more})
        if repeated.count:
            text = f"{were(repeated.count, 'batch')} sent again with the sequence number of the one before"
            yield Advice("duplicate_sequence", text, repeated.first, {"count": repeated.count})


def share_acknowledged(body: Mapping[str, Any]) -> Remark | None:
    """What a request of ACKNOWLEDGING, decoded in full, releases for another delivery, and what it rejects for good."""
    released = rejected = 0
    for topic in body.get("topics") or ():
        for partition in topic.get("partitions") or ():
            for batch in partition.get("acknowledgementBatches") or ():
                types = batch["acknowledgeTypes"]
                each = max(0, batch["lastOffset"] - batch["firstOffset"] + 1) if len(types) == 1 else 1
                released += each * types.count(_RELEASE)
                rejected += each * types.count(_REJECT)
    if not released and not rejected:
        return None
    more = {"group": body.get("groupId"), "released": released, "rejected": rejected}
    return Remark(
        "not_accepted", f"{counted(released, 'message')} released, {counted(rejected, 'message')} rejected", more
    )
