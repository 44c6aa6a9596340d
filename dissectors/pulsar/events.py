"""Rows of `events` of Pulsar: what commands, and requests with their answers, say that no column holds.

A command of STATING says something by itself; of a request of ASKING, its answer decides.

Source: PulsarApi.proto of Apache Pulsar; PIP-31 (transactions), PIP-188 (migration), PIP-307 (assigned broker).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissectors.pulsar.api import enum
from dissectors.pulsar.commands import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    CONNECT,
    LOOKUP_RESPONSE,
    PRODUCER,
    PRODUCER_SUCCESS,
    SUBSCRIBE,
    TOPIC_MIGRATED,
    UNSUBSCRIBE,
)
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.errors import REDIRECT
from dissectors.pulsar.fields import (
    ACTIVE_CONSUMER_CHANGE_IS_ACTIVE,
    END_TXN_TXN_ACTION,
    END_TXN_TXNID_LEAST_BITS,
    END_TXN_TXNID_MOST_BITS,
    GET_OR_CREATE_SCHEMA_RESPONSE_SCHEMA_VERSION,
    GET_OR_CREATE_SCHEMA_SCHEMA,
    LOOKUP_TOPIC_RESPONSE_RESPONSE,
    NEW_TXN_RESPONSE_TXNID_LEAST_BITS,
    NEW_TXN_RESPONSE_TXNID_MOST_BITS,
    NEW_TXN_TXN_TTL_MILLIS,
    PRODUCER_SCHEMA,
    PRODUCER_SUCCESS_SCHEMA_VERSION,
    SCHEMA_TYPE,
    SEEK_MESSAGE_ID,
    SEEK_MESSAGE_PUBLISH_TIME,
    SEND_TXNID_LEAST_BITS,
    SEND_TXNID_MOST_BITS,
    SUBSCRIBE_DURABLE,
    SUBSCRIBE_INITIAL_POSITION,
    SUBSCRIBE_READ_COMPACTED,
    SUBSCRIBE_SUB_TYPE,
    TOPIC_MIGRATED_BROKER_SERVICE_URL,
    TOPIC_MIGRATED_BROKER_SERVICE_URL_TLS,
)
from dissectors.pulsar.logins import login_of
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.positions import owner_of
from dissectors.pulsar.remarks import proxied_by
from dissectors.pulsar.schemas import schema_version
from dissectors.redaction import without_tokens
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ErrorCode, Report
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SERVER
from dissectors.wire.protobuf import VARINT, fields

SEEK, ACTIVE_CONSUMER_CHANGE, GET_OR_CREATE_SCHEMA, NEW_TXN, END_TXN = 28, 31, 39, 50, 56
SUBSCRIPTION = "subscription"
_POSITIONS = {0: "Latest", 1: "Earliest"}  # CommandSubscribe.InitialPosition
_END = {-1: "the earliest message", (1 << 63) - 1: "the latest message"}  # ledger of MessageId.earliest and .latest
_WITH_SCHEMA = {PRODUCER: PRODUCER_SCHEMA, GET_OR_CREATE_SCHEMA: GET_OR_CREATE_SCHEMA_SCHEMA}
_VERSIONS = {
    PRODUCER_SUCCESS: PRODUCER_SUCCESS_SCHEMA_VERSION,
    GET_OR_CREATE_SCHEMA + 1: GET_OR_CREATE_SCHEMA_RESPONSE_SCHEMA_VERSION,
}
"""Type of an answer -> its field with the version of the schema, 8 bytes."""
_SCHEMAS = {number: name for number, name in enum("Schema.Type").items() if number}
_INCOMPATIBLE = "IncompatibleSchema"
_TYPES = {0: "Exclusive", 1: "Shared", 2: "Failover", 3: "Key_Shared"}  # CommandSubscribe.SubType
_ABORT = 1  # TxnAction
_CONNECT = 1  # LookupType
_ADDRESSES = 1000  # that are remembered on one connection
_ALL_ONES = (1 << 64) - 1  # ids are shown without a sign


class PulsarEvents:
    """Writes the events of one connection.

    advertised: addresses that brokers named; registered: topics and what schema they have. Both are reported once.
    """

    def __init__(self, report: Report) -> None:
        self.report = report
        self.advertised: set[str] = set()
        self.registered: set[tuple[str, str]] = set()

    def stated(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        """Take a command of STATING or ASKING. own: the command; request: the request that it answers, or itself."""
        STATING[command.code](self, frame, command, own, request)

    def answered(self, frame: Frame, command: PulsarCommand, request: PulsarRequest, error: ErrorCode | None) -> None:
        """Take the answer to a request of ASKING."""
        code = 0 if error is None else error.code
        code = -1 if code is None else code
        if request.api_code in (SEEK, UNSUBSCRIBE):
            kind = "altered" if request.api_code == SEEK else "deleted"
            self._write(kind, frame, request, thing=SUBSCRIPTION, number=code, text=request.told)
        elif request.api_code == CONNECT:
            if request.told is not None:
                name, method = request.told
                self._write("authenticated", frame, request, subject=name, number=code, text=method)
        elif request.api_code in _WITH_SCHEMA and (error is None or error.name == _INCOMPATIBLE):
            self._registered(frame, command, request, code)
        elif error is None:
            _DONE[request.api_code](self, frame, command, request)
        elif request.api_code == END_TXN and request.told is not None:
            self._write("transaction_ended", frame, request, subject=request.told[0], text=request.told[1])

    def deduplicated(self, frame: Frame, request: PulsarRequest) -> None:
        """A receipt says that the broker has dropped what it already had."""
        self._write("deduplicated", frame, request, subject=_name(request))

    # --- commands that say something by themselves ---

    def _connect(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        own.told = login_of(command)
        if (proxied := proxied_by(command)) is not None:
            self._write("proxied", frame, own, subject=proxied[0], text=proxied[1])

    def _subscribe(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        type_ = _TYPES.get(command.fields.number(SUBSCRIBE_SUB_TYPE, 0))
        first = _POSITIONS.get(command.fields.number(SUBSCRIBE_INITIAL_POSITION, 0))
        own.told = type_, first if command.fields.number(SUBSCRIBE_DURABLE, 1) else None
        if command.fields.number(SUBSCRIBE_READ_COMPACTED, 0):
            self._write("compacted", frame, own, text="read_compacted")

    def _close(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        if frame.direction == SERVER:
            self._write("closed_by_broker", frame, own, subject=_name(own), text=owner_of(command))

    def _lookup(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        answer = command.fields.number(LOOKUP_TOPIC_RESPONSE_RESPONSE, ABSENT)
        owner = owner_of(command)
        if answer == REDIRECT:
            self._write("redirected", frame, request, text=owner)
        elif answer == _CONNECT and owner and self._is_new(owner):
            self._write("advertised", frame, request, subject=owner)

    def _is_new(self, address: str) -> bool:
        """Whether an address has not been reported, and is from now on."""
        if address in self.advertised or len(self.advertised) >= _ADDRESSES:
            return False
        self.advertised.add(address)
        return True

    def _migrated(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        url = command.fields.text(TOPIC_MIGRATED_BROKER_SERVICE_URL) or command.fields.text(
            TOPIC_MIGRATED_BROKER_SERVICE_URL_TLS
        )
        self._write("migrated", frame, own, subject=_name(own), text=without_tokens(url) if url else None)

    # --- requests on whose answer it depends ---

    def _seek(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        time = command.number(SEEK_MESSAGE_PUBLISH_TIME)
        if command.read_id(SEEK_MESSAGE_ID):
            own.told = f"seek to {_END.get(command.ledger(), f'message {command.ledger()}:{command.entry()}')}"
        else:
            own.told = "seek" if time == ABSENT else f"seek to messages published at {time} ms"

    def _names_schema(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        field = _WITH_SCHEMA[command.code]
        if command.readable and command.fields.has(field):
            schema = next(
                (
                    part.value
                    for part in fields(command.data, command.fields.start(field), command.fields.stop(field))
                    if (part.number, part.kind) == (SCHEMA_TYPE, VARINT)
                ),
                0,
            )
            own.told = _SCHEMAS.get(schema)

    def _registered(self, frame: Frame, command: PulsarCommand, request: PulsarRequest, code: int) -> None:
        """A topic has the schema that a producer or a request names: once for each version, and each refusal."""
        if request.told is None or request.topic is None:
            return
        version = _version(command)
        text = f"type={request.told}" + ("" if version is None else f", version={version}")
        seen = (request.topic.name, text)
        if not code:
            if seen in self.registered or len(self.registered) >= _ADDRESSES:
                return
            self.registered.add(seen)
        self._write("registered", frame, request, thing="schema", number=code, text=text)

    def _new_transaction(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: Any) -> None:
        own.told = command.fields.number(NEW_TXN_TXN_TTL_MILLIS, 0)

    def _end_transaction(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: Any) -> None:
        own.told = (
            _transaction(command, END_TXN_TXNID_MOST_BITS, END_TXN_TXNID_LEAST_BITS),
            "abort" if command.fields.number(END_TXN_TXN_ACTION, 0) == _ABORT else "commit",
        )

    def _joined(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        type_, first = request.told or (None, None)
        self._write("joined", frame, request, subject=_name(request), text=type_)
        if first is not None:
            text = f"type={type_}, initial.position={first}"
            self._write("subscribed", frame, request, thing=SUBSCRIPTION, number=0, text=text)

    def _left(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        self._write("left", frame, request, subject=_name(request))

    def _transaction_began(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if command.readable:
            id_ = _transaction(command, NEW_TXN_RESPONSE_TXNID_MOST_BITS, NEW_TXN_RESPONSE_TXNID_LEAST_BITS)
            self._write("transaction_began", frame, request, subject=id_, number=request.told)

    def _transaction_ended(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        if request.told is not None:
            id_, action = request.told
            self._write("transaction_ended", frame, request, subject=id_, text=action)
            if action == "abort":
                self._write("transaction_aborted", frame, request, subject=id_)

    def sent(self, frame: Frame, command: PulsarCommand, own: PulsarRequest) -> None:
        """Take a SEND: what it says of a transaction."""
        if command.fields.number(SEND_TXNID_LEAST_BITS, ABSENT) != ABSENT:
            id_ = _transaction(command, SEND_TXNID_MOST_BITS, SEND_TXNID_LEAST_BITS)
            self._write("transaction_joined", frame, own, subject=id_)

    def _active(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        kind = "active" if command.fields.number(ACTIVE_CONSUMER_CHANGE_IS_ACTIVE, 0) else "standby"
        self._write(kind, frame, own, subject=_name(own))

    def _write(self, kind: str, frame: Frame, request: PulsarRequest, **more: Any) -> None:
        topic = request.topic
        self.report.event(
            kind,
            request,
            frame.facts(),
            topic=None if topic is None else topic.name,
            partition=None if topic is None else topic.partition,
            **more,
        )


def _name(request: PulsarRequest) -> str | None:
    """Of the producer or consumer that a command is about."""
    return None if request.endpoint is None else request.endpoint.name


def _version(command: PulsarCommand) -> int | None:
    """The version of a schema that an answer names, from 0; None where it names none that is a number."""
    field = _VERSIONS.get(command.code)
    return schema_version(command.fields.octets(field)) if field is not None and command.readable else None


def _transaction(command: PulsarCommand, most: int, least: int) -> str:
    """The id of a transaction, as Pulsar prints it."""
    return f"({command.fields.number(most, 0) & _ALL_ONES},{command.fields.number(least, 0) & _ALL_ONES})"


STATING: dict[int, Callable[[PulsarEvents, Frame, PulsarCommand, PulsarRequest, PulsarRequest], None]] = {
    CONNECT: PulsarEvents._connect,
    SUBSCRIBE: PulsarEvents._subscribe,
    PRODUCER: PulsarEvents._names_schema,
    GET_OR_CREATE_SCHEMA: PulsarEvents._names_schema,
    CLOSE_PRODUCER: PulsarEvents._close,
    CLOSE_CONSUMER: PulsarEvents._close,
    LOOKUP_RESPONSE: PulsarEvents._lookup,
    SEEK: PulsarEvents._seek,
    ACTIVE_CONSUMER_CHANGE: PulsarEvents._active,
    NEW_TXN: PulsarEvents._new_transaction,
    END_TXN: PulsarEvents._end_transaction,
    TOPIC_MIGRATED: PulsarEvents._migrated,
}
"""Types of commands that say something, or of which the answer is understood by what they say."""

_DONE: dict[int, Callable[[PulsarEvents, Frame, PulsarCommand, PulsarRequest], None]] = {
    SUBSCRIBE: PulsarEvents._joined,
    CLOSE_CONSUMER: PulsarEvents._left,
    NEW_TXN: PulsarEvents._transaction_began,
    END_TXN: PulsarEvents._transaction_ended,
}
ASKING = frozenset({*_DONE, *_WITH_SCHEMA, SEEK, UNSUBSCRIBE, CONNECT})
"""Types of requests that are looked at when their answer comes."""
