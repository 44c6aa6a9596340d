"""What an operator should know of a client, and only a capture shows: findings at the end of a connection.

    removed_in_4_0       APIs and versions that brokers refuse since Kafka 4.0
    old_message_format   messages of magic 0 or 1, which brokers must convert
    not_idempotent       batches without a producer id that wait for an answer: a retry may write them twice
    unbatched            nearly every batch, or set of messages of magic 0 or 1, holds one message
    useless_compression  compressed batches are as large as what is in them
    duplicate_sequence   a batch that was not refused was sent again with the same sequence number
    rebalance_storm      a group's members join again and again
    frequent_commits     offsets are committed many times a second
    head_of_line         requests waited behind others of their own connection, mostly behind a fetch that was held
    partial_batches      answers to fetches end within a batch, because the fetch allowed no more bytes
    stuck_consumer       fetches at one offset bring only the beginning of a batch, again and again

and what single requests and answers say that no column holds: findings of their frames, for verdicts.

    transaction_aborted  an EndTxn that gave a transaction up
    not_accepted         acknowledgements of a share group that release or reject messages
    member_epoch         a heartbeat's answer with a new epoch: the group has rebalanced

Severity is info where it is a matter of taste, warning where it costs or loses something.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import cython

from dissectors.kafka.body_notes import RecordSet, Topic
from dissectors.kafka.decode import END_TXN, HEARTBEATS, JOIN_GROUP, SHARE_ACKNOWLEDGE, SHARE_FETCH, ApiVersion
from dissectors.kafka.record_batch import RecordBatch
from dissectors.kafka.state import set_state, state_of
from dissectors.session.exchange import PRODUCE
from dissectors.session.frame import FrameFacts
from dissectors.wording import counted, were

if not cython.compiled:
    from dissectors.rows.layout import ABSENT

    QUEUED_NS = 10_000_000  # a request that waited so long behind others …
    SEQUENCES = 1 << 16  # sequence numbers remembered on one connection

_QUEUED = 5  # … so many times, is worth a finding
_MANY = 20  # batches or commits below which nothing is said of a habit
_MOSTLY = 0.9  # share of batches with one message that makes a producer unbatched
_USELESS = 0.98  # stored size against uncompressed size
_COMMITS_A_SECOND = 5
_JOINS, _JOINS_NS = 8, 60_000_000_000  # so many in so much time are a storm; a Connect worker starts with some five
_STUCK, _PARTITIONS = 3, 1000  # fetches at one offset that bring no whole batch; offsets that are remembered
_GROUPS = 1000  # groups counted on one connection
_SECOND = 1_000_000_000
_EPOCHS = 1000  # members of groups whose epoch is remembered on one connection
_RELEASE, _REJECT = 2, 3  # acknowledge types of a share group
ACKNOWLEDGING = frozenset({SHARE_FETCH, SHARE_ACKNOWLEDGE})
"""APIs whose requests acknowledge messages of a share group."""
INSPECTED = frozenset({JOIN_GROUP, END_TXN, SHARE_ACKNOWLEDGE, *HEARTBEATS})
"""APIs of which every exchange is looked at, one by one."""


class Advice(NamedTuple):
    """One finding, and the frame in which its cause was first seen."""

    kind: str
    message: str
    first: Tally
    evidence: dict[str, Any]


class Remark(NamedTuple):
    """One finding about the frame that is at hand."""

    kind: str
    message: str
    evidence: dict[str, Any]


class Tally:
    """How often something was seen, and in which frame first."""

    __slots__ = ("count", "direction", "last_ns", "more", "offset", "packet_ref", "time")

    def __init__(self) -> None:
        self.count = 0
        self.direction = 0
        self.time = 1 << 62  # ns, of the first frame; later than any
        self.packet_ref = 0
        self.offset = 0
        self.last_ns = 0
        self.more: dict[str, Any] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_state(self, state)

    def add(self, frame: FrameFacts) -> None:
        """It was seen once more."""
        self.count += 1
        if frame.first_ns < self.time or (frame.first_ns == self.time and frame.packet_ref < self.packet_ref):
            self.direction = frame.direction
            self.time = frame.first_ns
            self.packet_ref = frame.packet_ref
            self.offset = frame.offset


class ProducerSequence:
    """The newest batch of a producer to a partition: its sequence number, and the delivery at which it came.

    refused: delivery of the answer that refused a batch of this number; it may be known before the batch is
    """

    __slots__ = ("epoch", "number", "order", "partition", "producer_id", "refused", "topic")

    def __init__(self) -> None:
        self.producer_id = 0
        self.epoch = 0
        self.topic: Topic | None = None
        self.partition = 0
        self.number = -1
        self.order = 0
        self.refused = -1

    def __getstate__(self) -> dict[str, Any]:
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_state(self, state)


class KafkaDiagnostics:
    """Keeps count on one connection.

    produced: batches of magic 2; single: those that hold one message; plain: those without a producer id
    packed: compressed batches, with their bytes; repeated: batches that were sent again
    behind: requests that waited behind others, with their times and APIs; overtaken: answers to later requests first
    late: fetches that were answered later than they allowed, and the latest
    tails: answers that end within a batch, with the bytes of these; stuck: where nothing else came
    """

    __slots__ = (
        "behind",
        "commits",
        "epochs",
        "joins",
        "late",
        "latest_allowed_ms",
        "latest_ns",
        "longest_ns",
        "newest",
        "old_formats",
        "overtaken",
        "packed",
        "plain",
        "produced",
        "queued_apis",
        "queued_ns",
        "removed",
        "repeated",
        "sequences",
        "single",
        "stored_bytes",
        "stuck",
        "tail_bytes",
        "tails",
        "uncompressed_bytes",
    )

    def __init__(self) -> None:
        self.produced = Tally()
        self.plain = Tally()
        self.packed = Tally()
        self.repeated = Tally()
        self.behind = Tally()
        self.overtaken = Tally()
        self.late = Tally()
        self.latest_ns = self.latest_allowed_ms = 0
        self.tails = Tally()
        self.tail_bytes = 0
        self.stuck: dict[tuple[Topic | None, int, int], Tally] = {}  # by topic, partition and offset
        self.single = self.stored_bytes = self.uncompressed_bytes = self.queued_ns = self.longest_ns = 0
        self.queued_apis: dict[str, int] = {}
        self.removed: dict[tuple[str, int], Tally] = {}  # by API and version
        self.old_formats: dict[tuple[str, int], Tally] = {}  # by role and magic
        self.joins: dict[str, Tally] = {}  # by group
        self.commits: dict[str, Tally] = {}
        self.sequences: dict[tuple[int, int, Topic | None, int], ProducerSequence] = {}
        self.newest = ProducerSequence()  # that was used last
        self.epochs: dict[tuple[str, str], int] = {}  # (group, member) -> the newest

    def __getstate__(self) -> dict[str, Any]:
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        set_state(self, state)

    # --- what is seen ---

    def removed_api(self, api: ApiVersion, frame: FrameFacts) -> None:
        """A request that brokers refuse since Kafka 4.0."""
        self.removed.setdefault((api.name, api.version), Tally()).add(frame)

    def committed(self, group: str | None, frame: FrameFacts) -> None:
        """Offsets of a group, if it is known, were committed."""
        if group is not None and (group in self.commits or len(self.commits) < _GROUPS):
            tally = self.commits.setdefault(group, Tally())
            tally.add(frame)
            tally.last_ns = max(tally.last_ns, frame.first_ns)

    def joined(self, frame: FrameFacts, group: str | None, generation: int | None) -> None:
        """A member has joined its group, if it is known."""
        if group is None or len(self.joins) >= _GROUPS:
            return
        tally = self.joins.setdefault(group, Tally())
        tally.add(frame)
        if tally.more is None:
            tally.more = {"first_generation": generation, "last_generation": None, "most": 0, "times": deque()}
        tally.more["last_generation"] = generation
        times = tally.more["times"]  # of the last joins
        times.append(frame.first_ns)
        if frame.first_ns - times[0] > _JOINS_NS or len(times) > _MANY:
            times.popleft()
        tally.more["most"] = max(tally.more["most"], len(times))

    def seen_batch(self, frame: FrameFacts, role: str, batch: RecordBatch) -> None:
        """A batch, sent or received."""
        if batch.uncompressed > 0 and batch.codec != "none":
            self.packed.add(frame)
            self.stored_bytes += batch.start + batch.size - batch.body
            self.uncompressed_bytes += batch.uncompressed

    def old_messages(self, frame: FrameFacts, role: str, messages: list[RecordBatch]) -> None:
        """The messages of magic 0 or 1 of a partition, at least one, sent or received: together they are a batch."""
        count = sum(message.count for message in messages if message.count != ABSENT)
        tally = self.old_formats.setdefault((role, messages[0].magic), Tally())
        if tally.more is None:
            tally.more = {"messages": 0, "offset": -1}
        tally.more["messages"] += count
        if tally.more["offset"] != frame.offset:  # several partitions of one frame count once
            tally.more["offset"] = frame.offset
            tally.add(frame)
        if role == PRODUCE:
            self.produced.add(frame)
            self.single += count == 1

    def ends_within_batch(self, frame: FrameFacts, size: int) -> None:
        """The batches of a partition end with the first `size` bytes of one."""
        self.tails.add(frame)
        self.tail_bytes += size

    def brought_no_batch(
        self, frame: FrameFacts, topic: Topic | None, name: str | None, partition: int, offset: int
    ) -> None:
        """A fetch of a partition at an offset, ABSENT if not known, brought only the beginning of a batch."""
        key = topic, partition, offset
        known = self.stuck.get(key)
        if known is None:
            if offset == ABSENT or len(self.stuck) >= _PARTITIONS:
                return
            known = self.stuck[key] = Tally()
            known.more = {"topic": name, "partition": partition, "position": offset}
        known.add(frame)

    def produced_batch(
        self,
        frame: FrameFacts,
        batch: RecordBatch,
        topic: Topic | None,
        partition: cython.longlong,
        answered: cython.bint,
    ) -> None:
        """A batch that a client sent. answered: who sends without an answer does not send again."""
        sequence: ProducerSequence
        if batch.magic == 2:  # older messages are no batches
            self.produced.add(frame)
            self.single += batch.count == 1
            if answered and batch.producer_id < 0:
                self.plain.add(frame)
        if batch.base_sequence < 0 or batch.producer_id < 0:
            return
        sequence = self._sequence(batch, topic, partition)
        if sequence.number == batch.base_sequence:
            if not sequence.order < sequence.refused < frame.order:
                self.repeated.add(frame)
        else:
            sequence.refused = -1
        sequence.number = batch.base_sequence
        sequence.order = frame.order

    def _sequence(self, batch: RecordBatch, topic: Topic | None, partition: cython.longlong) -> ProducerSequence:
        """What is remembered of the producer of a batch; nothing of it is kept where too many are."""
        known: ProducerSequence = self.newest
        if (
            known.producer_id == batch.producer_id
            and known.epoch == batch.producer_epoch
            and known.partition == partition
            and known.topic == topic
            and known.number >= 0
        ):
            return known
        key = (batch.producer_id, batch.producer_epoch, topic, partition)
        if key in self.sequences:
            known = self.sequences[key]
        else:
            known = ProducerSequence()
            known.producer_id, known.epoch, known.topic, known.partition = key
            if len(self.sequences) >= SEQUENCES:
                return known
            self.sequences[key] = known
        self.newest = known
        return known

    def refused(self, records: RecordSet, order: int) -> None:
        """The answer at `order` refused batches: the client must send them again, with the same sequence numbers."""
        for batch in records.batches:
            known = self.sequences.get((batch.producer_id, batch.producer_epoch, records.topic, records.partition))
            if known is not None and known.number == batch.base_sequence:
                known.refused = order

    def queued(self, request: FrameFacts, api: str, queued_ns: cython.longlong) -> None:
        """A request, not a fetch, that waited `queued_ns`, at least QUEUED_NS, behind others of its connection."""
        self.behind.add(request)
        self.queued_ns += queued_ns
        self.longest_ns = max(self.longest_ns, queued_ns)
        self.queued_apis[api] = self.queued_apis.get(api, 0) + 1

    def overdue(self, request: FrameFacts, waited_ns: int, allowed_ms: int) -> None:
        """A fetch that was answered later than it allowed."""
        self.late.add(request)
        if waited_ns > self.latest_ns:
            self.latest_ns, self.latest_allowed_ms = waited_ns, allowed_ms

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
        known = self.epochs.get((group, member))
        if epoch <= 0:
            self.epochs.pop((group, member), None)
            return None
        if epoch == known or (known is None and len(self.epochs) >= _EPOCHS):
            return None
        self.epochs[group, member] = epoch
        more = {"group": group, "member": member, "epoch": epoch, "first": known is None}
        return Remark("member_epoch", f"A member of group {group} has epoch {epoch}", more)

    # --- what is made of it ---

    def findings(self) -> Iterator[Advice]:
        """The advice, at the end of the connection."""
        for (api, version), tally in self.removed.items():
            text = f"{api} version {version} is refused by brokers since Kafka 4.0; used {counted(tally.count, 'time')}"
            more = {"api": api, "version": version, "count": tally.count}
            yield Advice("removed_in_4_0", text, tally, more)
        for (role, magic), tally in self.old_formats.items():
            messages = (tally.more or {})["messages"]
            where = counted(tally.count, "request" if role == PRODUCE else "answer")
            text = f"{were(messages, 'message')} in format {magic}, in {where}: brokers must convert them"
            more = {"role": role, "magic": magic, "count": tally.count, "messages": messages}
            yield Advice("old_message_format", text, tally, more)
        yield from self._of_producers()
        if self.overtaken.count:
            count = self.overtaken.count
            text = f"{were(count, 'request')} answered after later ones of the connection: brokers answer in order"
            yield Advice("out_of_order_answers", text, self.overtaken, {"count": count})
        if self.behind.count >= _QUEUED:
            count, mean = self.behind.count, self.queued_ns // self.behind.count // 1_000_000
            text = f"{count} requests waited behind others of their connection, {mean} ms each on average"
            apis = dict(sorted(self.queued_apis.items()))
            more = {"count": count, "queued_ns": self.queued_ns, "longest_ns": self.longest_ns, "apis": apis}
            yield Advice("head_of_line", text, self.behind, more)
        if self.late.count:
            count, ms = self.late.count, self.latest_ns // 1_000_000
            text = f"{were(count, 'fetch')} answered later than allowed, one after {ms} ms of {self.latest_allowed_ms}"
            more = {"count": count, "longest_ns": self.latest_ns, "allowed_ms": self.latest_allowed_ms}
            yield Advice("fetch_overdue", text, self.late, more)
        if self.tails.count:
            count, size = self.tails.count, self.tail_bytes
            text = f"{counted(count, 'set')} of batches in answers to fetches end within a batch: {size} bytes of it"
            yield Advice("partial_batches", text, self.tails, {"count": count, "bytes": size})
        for tally in self.stuck.values():
            if tally.count >= _STUCK and tally.more is not None:
                offset = tally.more["position"]
                text = f"{tally.count} fetches at offset {offset} brought only the beginning of a batch each"
                yield Advice("stuck_consumer", text, tally, {"count": tally.count, **tally.more})
        for group, tally in self.joins.items():
            joins = dict(tally.more or {})
            if joins.pop("times") and joins["most"] >= _JOINS:
                text = f"A member of group {group} joined {joins['most']} times within a minute"
                yield Advice("rebalance_storm", text, tally, {"group": group, **joins})
        for group, tally in self.commits.items():
            span = tally.last_ns - tally.time
            if tally.count >= _MANY and span > 0 and tally.count * _SECOND > _COMMITS_A_SECOND * span:
                rate = round(tally.count * _SECOND / span, 1)
                text = f"Group {group} commits offsets {rate} times a second"
                more = {"group": group, "count": tally.count, "per_second": rate}
                yield Advice("frequent_commits", text, tally, more)

    def _of_producers(self) -> Iterator[Advice]:
        plain, produced, packed, repeated = self.plain, self.produced, self.packed, self.repeated
        if plain.count:
            text = f"{were(plain.count, 'batch')} produced without idempotence: retried, a batch may be written twice"
            yield Advice("not_idempotent", text, plain, {"count": plain.count})
        if produced.count >= _MANY and self.single >= _MOSTLY * produced.count:
            text = f"{self.single} of {produced.count} batches hold one message: batching would save work"
            yield Advice("unbatched", text, produced, {"single": self.single, "count": produced.count})
        if packed.count >= _MANY and self.stored_bytes >= _USELESS * self.uncompressed_bytes:
            text = f"Compression saves nothing in {counted(packed.count, 'batch')}"
            sizes = {"stored": self.stored_bytes, "uncompressed": self.uncompressed_bytes}
            yield Advice("useless_compression", text, packed, {"count": packed.count, **sizes})
        if repeated.count:
            text = f"{were(repeated.count, 'batch')} sent again with the sequence number of the one before"
            yield Advice("duplicate_sequence", text, repeated, {"count": repeated.count})


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
