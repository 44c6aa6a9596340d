"""Rows of `events` of Kafka: what requests and their answers say that no column holds.

Requests and answers of the APIs in EVENTFUL are rare, and are decoded in full, by their schema. Of the many heartbeats
the notes of the walk are enough. Of Produce and Fetch two answers say more than their columns: an error that names the
new leader (KIP-951), and one that sends a consumer to a nearer replica (KIP-392), in an answer without records. What
requests of administrators change is in changes.py.

Source: the schemas of the messages; KIP-800 (reasons), KIP-848 (epochs), KIP-932 (share groups), KIP-1071 (status).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from dissectors.kafka.body_notes import BodyNotes, Fault
from dissectors.kafka.changes import (
    OFFSET_COMMIT,
    READERS,
    WRITE_TXN_MARKERS,
    changes,
    commits_as_no_member,
    described,
    quotas_described,
    topic_id,
)
from dissectors.kafka.decode import (
    EVENTFUL,
    FETCH,
    FIND_COORDINATOR,
    HEARTBEATS,
    INIT_PRODUCER_ID,
    JOIN_GROUP,
    PRODUCE,
    SASL_HANDSHAKE,
    SHARE_ACKNOWLEDGE,
    SHARE_FETCH,
    ApiVersion,
)
from dissectors.kafka.full import full
from dissectors.kafka.happened import Body, Happened
from dissectors.kafka.logins import KafkaLogin, KafkaLogins
from dissectors.kafka.nested import PRINCIPAL
from dissectors.kafka.pending import KafkaRequest
from dissectors.records import endpoint
from dissectors.session.exchange import LONGEST_TEXT
from dissectors.session.frame import Frame, FrameFacts
from dissectors.wire.reader import ReadError

_Conversation = Any  # a KafkaConversation, whose module imports this one

ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 24, 25, 26, 28
METADATA, LEAVE_GROUP, DESCRIBE_CONFIGS, SASL_AUTHENTICATE = 3, 13, 32, 36
DESCRIBE_QUOTAS, DESCRIBE_CLUSTER, STREAMS_HEARTBEAT = 48, 60, 88
_RESPONSE_HEAD = 8  # bytes before the body, or the tagged fields, of an answer
_MOST = 1000  # events of one request; members, and addresses, that are remembered on one connection
_RELEASE, _REJECT = 2, 3  # acknowledge types of a share group
_NOT_LEADER = frozenset({6, 74})  # NOT_LEADER_OR_FOLLOWER, FENCED_LEADER_EPOCH
_REPLICA_SINCE = 11  # version of Fetch from which on an answer may name another replica
_STATUS = {
    0: "STALE_TOPOLOGY",
    1: "MISSING_SOURCE_TOPICS",
    2: "INCORRECTLY_PARTITIONED_TOPICS",
    3: "MISSING_INTERNAL_TOPICS",
    4: "SHUTDOWN_APPLICATION",
    5: "ASSIGNMENT_DELAYED",
}
"""StreamsGroupHeartbeatResponse.Status."""
_BEFORE_4 = "v3AndBelow"  # field names of AddPartitionsToTxn up to version 3, which clients use


class KafkaEvents:
    """What one connection has said already, so that it is not reported with every answer.

    epochs: (group, member) -> the newest epoch; status: (group, member) -> what its group lacks
    advertised: addresses of brokers; described: settings, as `described` tells them; logins: see logins.py
    """

    __slots__ = ("advertised", "described", "epochs", "logins", "status")

    def __init__(self) -> None:
        self.epochs: dict[tuple[str, str], int] = {}
        self.status: dict[tuple[str | None, str | None], str] = {}
        self.advertised: set[tuple[int, str]] = set()
        self.described: dict[tuple[Any, ...], str | None] = {}
        self.logins = KafkaLogins()

    # --- what the conversation hands over ---

    def requested(
        self, conversation: _Conversation, frame: Frame, call: KafkaRequest, api: ApiVersion, at: int
    ) -> None:
        """Take a request of an API in EVENTFUL. at: index after its client id."""
        if not frame.complete or api.key not in _REQUESTS or (api.key == WRITE_TXN_MARKERS and _by_broker(call)):
            return
        try:
            start, end = api.request_body(frame.data, at), frame.start + frame.size
        except ReadError:
            return
        if api.key == OFFSET_COMMIT:
            head = full("OffsetCommitRequest", api.version, frame.data, start, end, last="memberId")
            if not commits_as_no_member(head.body):
                return
        body = api.full_request(frame.data, start, end).body
        if api.key == SASL_AUTHENTICATE:
            self.logins.names(body.get(PRINCIPAL))
        elif api.key in (SHARE_FETCH, SHARE_ACKNOWLEDGE):
            _write(conversation, call, frame.facts(), _acknowledged(body))
        else:
            call.told = body

    def answered(
        self,
        conversation: _Conversation,
        frame: Frame,
        call: KafkaRequest,
        api: ApiVersion,
        notes: BodyNotes,
        faults: Sequence[Fault],
    ) -> None:
        """Take an answer to a request of an API in EVENTFUL, or to a Produce or Fetch that says where to go instead."""
        if api.key in HEARTBEATS:
            found: Iterable[Happened] = () if faults else self._heartbeat(api, frame, call, notes)
        elif api.key in (PRODUCE, FETCH):
            found = self._sent_elsewhere(api, frame, faults)
        elif not frame.complete:
            return
        elif api.key in READERS:
            told_by_request = api.key in (OFFSET_COMMIT, WRITE_TXN_MARKERS)
            if told_by_request and call.told is None:
                return
            found = changes(api.key, call.told, _body(api, frame))
        elif api.key in (SASL_HANDSHAKE, SASL_AUTHENTICATE):
            found = self._logged_in(api, call, _body(api, frame))
        elif api.key in _ANSWERS:
            found = self._new(_ANSWERS[api.key](call, _body(api, frame), notes))
        else:
            return
        _write(conversation, call, frame.facts(), found)

    def looks_at(self, api: ApiVersion, call: KafkaRequest, notes: BodyNotes, faults: Sequence[Fault]) -> bool:
        """Whether an answer may say something: of most that is plain from what is known of it.

        A broker that sends a consumer to another replica names a partition and gives no records.
        """
        if api.key in EVENTFUL:
            return True
        if api.key == FETCH and api.version >= _REPLICA_SINCE and notes.partitions and not call.payload_bytes:
            return True
        return api.key in (PRODUCE, FETCH) and any(fault.code in _NOT_LEADER for fault in faults)

    def answered_bare(self, conversation: _Conversation, frame: Frame, token: KafkaRequest) -> None:
        """Take the answer to a bare SASL token: a broker that refuses one closes the connection instead."""
        if (login := self.logins.answered(0)) is not None:
            _write(conversation, token, frame.facts(), (_authenticated(login),))

    # --- what is said again and again ---

    def _new(self, found: Iterable[Happened]) -> Iterator[Happened]:
        """All but addresses that were advertised before, and settings that were told before."""
        for each in found:
            if each.kind == "described":
                of = (each.thing, each.topic, each.subject, (each.text or "").partition("=")[0])
                if self.described.get(of) == each.text or (of not in self.described and len(self.described) >= _MOST):
                    continue
                self.described[of] = each.text
            if each.kind == "advertised":
                key = (-1 if each.number is None else each.number, each.subject or "")
                if key in self.advertised or len(self.advertised) >= _MOST:
                    continue
                self.advertised.add(key)
            yield each

    def _heartbeat(self, api: ApiVersion, frame: Frame, call: KafkaRequest, notes: BodyNotes) -> Iterator[Happened]:
        """A member hears its epoch; one of 0 and less says that it leaves, or has none yet."""
        asked, values = call.values or {}, notes.values()
        group, epoch = asked.get("groupId"), values.get("memberEpoch")
        member = values.get("memberId") or asked.get("memberId")
        if group is None or member is None or epoch is None:
            return
        known = self.epochs.get((group, member))
        if epoch <= 0:
            self.epochs.pop((group, member), None)
            if epoch < 0:
                yield Happened("left", subject=member, number=epoch)
        elif epoch != known and (known is not None or len(self.epochs) < _MOST):
            self.epochs[group, member] = epoch
            if asked.get("memberEpoch") == 0:
                yield Happened("joined", subject=member, number=epoch)
            yield Happened("epoch", subject=member, number=epoch, text="first" if known is None else None)
        if api.key == STREAMS_HEARTBEAT and frame.complete:
            yield from self._statuses(group, member, _body(api, frame))

    def _statuses(self, group: str, member: str, body: Body) -> Iterator[Happened]:
        """Why a streams group does not work, when a member hears it first, and that it works again.

        An answer without a list says nothing new.
        """
        stated = body.get("status")
        if stated is None:
            return
        said = [f"{_STATUS.get(one['statusCode'], one['statusCode'])}: {one['statusDetail']}" for one in stated]
        now = "\n".join(said)
        if now != self.status.get((group, member), "") and len(self.status) < _MOST:
            self.status[group, member] = now
            for text in (*said, *([] if said else [None])):
                yield Happened("status", subject=member, text=text)

    def _logged_in(self, api: ApiVersion, call: KafkaRequest, body: Body) -> Iterator[Happened]:
        """Who logs in with which mechanism, and whether the broker takes it."""
        if api.key == SASL_HANDSHAKE:
            login = self.logins.begins((call.values or {}).get("mechanism"), body.get("errorCode", 0))
        else:
            login = self.logins.answered(body.get("errorCode", 0))
        if login is not None:
            yield _authenticated(login)

    def _sent_elsewhere(self, api: ApiVersion, frame: Frame, faults: Sequence[Fault]) -> Iterator[Happened]:
        """Where an answer to a Produce or Fetch sends the client to."""
        if not frame.complete:
            return
        body = _body(api, frame)
        nodes = {node["nodeId"]: endpoint(node["host"], node["port"]) for node in body.get("nodeEndpoints") or ()}
        for topic in body.get("responses") or ():
            name = topic.get("name") or topic.get("topic") or topic_id(topic.get("topicId"))
            for one in topic.get("partitionResponses") or topic.get("partitions") or ():
                partition = one.get("index", one.get("partitionIndex"))
                leader = (one.get("currentLeader") or {}).get("leaderId", -1)
                if leader >= 0 and one.get("errorCode") in _NOT_LEADER:
                    yield Happened("new_leader", name, partition, subject=nodes.get(leader), number=leader)
                if (replica := one.get("preferredReadReplica", -1)) is not None and replica >= 0:
                    yield Happened("preferred_replica", name, partition, number=replica)


# --- what one exchange says ---


def _authenticated(login: KafkaLogin) -> Happened:
    return Happened("authenticated", subject=login.name, number=login.code, text=login.mechanism)


def _acknowledged(body: Body) -> Iterator[Happened]:
    """What a member of a share group releases for another delivery, and what it rejects for good."""
    counts = {_RELEASE: 0, _REJECT: 0}
    for topic in body.get("topics") or ():
        for partition in topic.get("partitions") or ():
            for batch in partition.get("acknowledgementBatches") or ():
                types = batch["acknowledgeTypes"]
                each = max(0, batch["lastOffset"] - batch["firstOffset"] + 1) if len(types) == 1 else 1
                for kind in counts:
                    counts[kind] += each * types.count(kind)
    for kind, name in ((_RELEASE, "released"), (_REJECT, "rejected")):
        if counts[kind]:
            yield Happened(name, group=body.get("groupId"), number=min(counts[kind], (1 << 63) - 1))


def _acquired(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    """What a member of a share group gets that was delivered before."""
    partitions = (one for topic in body.get("responses") or () for one in topic.get("partitions") or ())
    acquired = (one for partition in partitions for one in partition.get("acquiredRecords") or ())
    counts = (one["lastOffset"] - one["firstOffset"] + 1 for one in acquired if one["deliveryCount"] > 1)
    if again := sum(max(0, count) for count in counts):
        yield Happened("delivered_again", number=min(again, (1 << 63) - 1))


def _joined(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    if not body.get("errorCode"):
        reason = (call.told or {}).get("reason")
        yield Happened("joined", subject=body.get("memberId"), number=body.get("generationId"), text=reason)


def _left(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    asked = call.told or {}
    if body.get("errorCode"):
        return
    if asked.get("memberId"):
        yield Happened("left", subject=asked["memberId"])
    codes = {one.get("memberId"): one.get("errorCode") for one in body.get("members") or ()}
    for one in asked.get("members") or ():
        if not codes.get(one.get("memberId")):
            yield Happened("left", subject=one.get("memberId") or one.get("groupInstanceId"), text=one.get("reason"))


def _transaction_began(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    asked = call.told or {}
    if asked.get("transactionalId") is not None and not body.get("errorCode"):
        began = asked["transactionalId"], asked.get("transactionTimeoutMs")
        yield Happened("transaction_began", subject=began[0], number=began[1], text=str(body.get("producerId")))


def _transaction_joined(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    """AddPartitionsToTxn, AddOffsetsToTxn and TxnOffsetCommit: what a transaction holds from now on."""
    asked = {name.removeprefix(_BEFORE_4)[:1].lower() + name.removeprefix(_BEFORE_4)[1:]: value
             for name, value in (call.told or {}).items()}  # fmt: skip
    if body.get("errorCode") or asked.get("producerId") is None:
        return  # refused, or of a broker that asks for several at once
    joined = {"subject": asked.get("transactionalId"), "number": asked["producerId"]}
    if asked.get("groupId"):
        yield Happened("transaction_joined", group=asked["groupId"], **joined)
        return
    for topic in asked.get("topics") or ():
        yield Happened("transaction_joined", topic.get("name"), **joined)


def _transaction_ended(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    asked = call.values or {}
    ended = {"subject": asked.get("transactionalId"), "number": asked.get("producerId")}
    yield Happened("transaction_ended", text="abort" if asked.get("committed") == 0 else "commit", **ended)
    if asked.get("committed") == 0 and not body.get("errorCode"):
        yield Happened("transaction_aborted", **ended)


def _brokers(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    """The addresses of Metadata and DescribeCluster."""
    for one in body.get("brokers") or ():
        id_ = one.get("nodeId", one.get("brokerId"))
        if one.get("host") and one.get("port", -1) >= 0:
            yield Happened("advertised", subject=endpoint(one["host"], one["port"]), number=id_)


def _coordinators(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    for one in body.get("coordinators") or (body,):
        if not one.get("errorCode") and one.get("host") and one.get("port", -1) >= 0:
            yield Happened("advertised", subject=endpoint(one["host"], one["port"]), number=one.get("nodeId"))


def _described(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    return described(body, LONGEST_TEXT)


def _quotas_described(call: KafkaRequest, body: Body, notes: BodyNotes) -> Iterator[Happened]:
    return quotas_described(body)


_REQUESTS = frozenset(
    {SHARE_FETCH, SHARE_ACKNOWLEDGE, JOIN_GROUP, LEAVE_GROUP, INIT_PRODUCER_ID, SASL_AUTHENTICATE}
    | {ADD_PARTITIONS_TO_TXN, ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT}
    | READERS.keys()
)
"""APIs whose requests say something that their answers do not."""

_ANSWERS: Mapping[int, Callable[[KafkaRequest, Body, BodyNotes], Iterator[Happened]]] = {
    METADATA: _brokers,
    FIND_COORDINATOR: _coordinators,
    JOIN_GROUP: _joined,
    LEAVE_GROUP: _left,
    INIT_PRODUCER_ID: _transaction_began,
    ADD_PARTITIONS_TO_TXN: _transaction_joined,
    ADD_OFFSETS_TO_TXN: _transaction_joined,
    TXN_OFFSET_COMMIT: _transaction_joined,
    END_TXN: _transaction_ended,
    DESCRIBE_CONFIGS: _described,
    DESCRIBE_QUOTAS: _quotas_described,
    DESCRIBE_CLUSTER: _brokers,
    SHARE_FETCH: _acquired,
}
"""API -> what an exchange says, by what is kept of its request and by the body of its answer."""
_LAST_READ = {METADATA: "brokers"}
"""API -> the field of its answer behind which nothing is read."""


_MARKER_SENDER = re.compile(r"broker-\d+-txn-marker-sender")


def _by_broker(call: KafkaRequest) -> bool:
    """Whether a WriteTxnMarkers is of a coordinator, which ends each transaction by one.

    Source: TransactionMarkerChannelManager, which names its client so.
    """
    return _MARKER_SENDER.fullmatch(call.client_id or "") is not None


def _body(api: ApiVersion, frame: Frame) -> Body:
    """The body of an answer that is whole, as far as it can be read."""
    try:
        start = api.response_body(frame.data, frame.start + _RESPONSE_HEAD)
    except ReadError:
        return {}
    name, end = f"{api.name}Response", frame.start + frame.size
    return full(name, api.version, frame.data, start, end, last=_LAST_READ.get(api.key)).body


def _write(conversation: _Conversation, call: KafkaRequest, facts: FrameFacts, found: Iterable[Happened]) -> None:
    rows = conversation.rows
    for _, one in zip(range(_MOST), found, strict=False):
        rows.report.event(
            one.kind,
            call,
            facts,
            topic=rows.names.name(one.topic),
            partition=one.partition,
            group=one.group,
            subject=one.subject,
            number=one.number,
            text=one.text,
            thing=one.thing,
        )
