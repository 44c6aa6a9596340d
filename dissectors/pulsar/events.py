"""Rows of `events` of Pulsar: what commands, and requests with their answers, say that no column holds.

A command of STATING says something by itself; of a request of ASKING, its answer decides.

Source: PulsarApi.proto of Apache Pulsar; PIP-31 (transactions), PIP-188 (migration), PIP-307 (assigned broker).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dissectors.pulsar.commands import (
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    CONNECT,
    LOOKUP_RESPONSE,
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
    LOOKUP_TOPIC_RESPONSE_RESPONSE,
    NEW_TXN_RESPONSE_TXNID_LEAST_BITS,
    NEW_TXN_RESPONSE_TXNID_MOST_BITS,
    NEW_TXN_TXN_TTL_MILLIS,
    SEEK_MESSAGE_PUBLISH_TIME,
    SEND_TXNID_LEAST_BITS,
    SEND_TXNID_MOST_BITS,
    SUBSCRIBE_READ_COMPACTED,
    SUBSCRIBE_SUB_TYPE,
    TOPIC_MIGRATED_BROKER_SERVICE_URL,
    TOPIC_MIGRATED_BROKER_SERVICE_URL_TLS,
)
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.positions import owner_of
from dissectors.pulsar.remarks import proxied_by
from dissectors.redaction import without_tokens
from dissectors.rows.layout import ABSENT
from dissectors.session.exchange import ErrorCode, Report
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SERVER

SEEK, ACTIVE_CONSUMER_CHANGE, NEW_TXN, END_TXN = 28, 31, 50, 56
_TYPES = {0: "Exclusive", 1: "Shared", 2: "Failover", 3: "Key_Shared"}  # CommandSubscribe.SubType
_ABORT = 1  # TxnAction
_CONNECT = 1  # LookupType
_ADDRESSES = 1000  # that are remembered on one connection
_ALL_ONES = (1 << 64) - 1  # ids are shown without a sign


class PulsarEvents:
    """Writes the events of one connection. advertised: addresses that brokers named, which are reported once."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.advertised: set[str] = set()

    def stated(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        """Take a command of STATING or ASKING. own: the command; request: the request that it answers, or itself."""
        STATING[command.code](self, frame, command, own, request)

    def answered(self, frame: Frame, command: PulsarCommand, request: PulsarRequest, error: ErrorCode | None) -> None:
        """Take the answer to a request of ASKING."""
        code = 0 if error is None else error.code
        if request.api_code in (SEEK, UNSUBSCRIBE):
            kind = "altered" if request.api_code == SEEK else "deleted"
            self._write(kind, frame, request, number=-1 if code is None else code, text=request.told)
        elif error is None:
            _DONE[request.api_code](self, frame, command, request)

    def deduplicated(self, frame: Frame, request: PulsarRequest) -> None:
        """A receipt says that the broker has dropped what it already had."""
        self._write("deduplicated", frame, request, subject=_name(request))

    # --- commands that say something by themselves ---

    def _connect(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        if (proxied := proxied_by(command)) is not None:
            self._write("proxied", frame, own, subject=proxied[0], text=proxied[1])

    def _subscribe(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: PulsarRequest) -> None:
        own.told = _TYPES.get(command.fields.number(SUBSCRIBE_SUB_TYPE, 0))
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
        own.told = "seek" if time == ABSENT else f"seek to messages published at {time} ms"

    def _new_transaction(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: Any) -> None:
        own.told = command.fields.number(NEW_TXN_TXN_TTL_MILLIS, 0)

    def _end_transaction(self, frame: Frame, command: PulsarCommand, own: PulsarRequest, request: Any) -> None:
        own.told = (
            _transaction(command, END_TXN_TXNID_MOST_BITS, END_TXN_TXNID_LEAST_BITS),
            "abort" if command.fields.number(END_TXN_TXN_ACTION, 0) == _ABORT else "commit",
        )

    def _joined(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        self._write("joined", frame, request, subject=_name(request), text=request.told)

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


def _transaction(command: PulsarCommand, most: int, least: int) -> str:
    """The id of a transaction, as Pulsar prints it."""
    return f"({command.fields.number(most, 0) & _ALL_ONES},{command.fields.number(least, 0) & _ALL_ONES})"


STATING: dict[int, Callable[[PulsarEvents, Frame, PulsarCommand, PulsarRequest, PulsarRequest], None]] = {
    CONNECT: PulsarEvents._connect,
    SUBSCRIBE: PulsarEvents._subscribe,
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
ASKING = frozenset({*_DONE, SEEK, UNSUBSCRIBE})
"""Types of requests that are looked at when their answer comes."""
