"""Findings about single commands: proxies, and messages that a consumer finds damaged."""

from __future__ import annotations

from collections.abc import Callable

from dissectors.pulsar.commands import ACK, CONNECT
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.errors import VALIDATION, error_code
from dissectors.pulsar.fields import (
    ACK_MESSAGE_ID,
    ACK_VALIDATION_ERROR,
    CONNECT_ORIGINAL_PRINCIPAL,
    CONNECT_PROXY_TO_BROKER_URL,
    CONNECT_PROXY_VERSION,
)
from dissectors.pulsar.pending import PulsarRequest
from dissectors.pulsar.rows import PulsarRows
from dissectors.redaction import without_tokens
from dissectors.session.conversation import Conversation
from dissectors.session.frame import Frame

_ALL_ONES = (1 << 64) - 1  # ids are shown without a sign
_POSITIONS = 100  # that a finding names


def remark(
    conversation: Conversation, rows: PulsarRows, frame: Frame, command: PulsarCommand, request: PulsarRequest
) -> None:
    """Take a command of REMARKABLE."""
    REMARKABLE[command.code](conversation, rows, frame, command, request)


def proxied_by(command: PulsarCommand) -> tuple[str, str | None] | None:
    """Of a CONNECT that goes through a proxy: who opened the connection, and URL of the broker or the proxy's version.

    ("client", URL) or ("proxy", version or None); None of a connection without a proxy.
    """
    fields = command.fields
    if broker := fields.text(CONNECT_PROXY_TO_BROKER_URL):
        return "client", without_tokens(broker)
    if fields.has(CONNECT_PROXY_VERSION) or fields.has(CONNECT_ORIGINAL_PRINCIPAL):
        return "proxy", fields.text(CONNECT_PROXY_VERSION) or None
    return None


def _connect(
    conversation: Conversation, rows: PulsarRows, frame: Frame, command: PulsarCommand, request: PulsarRequest
) -> None:
    if (proxied := proxied_by(command)) is None:
        return
    opener, known = proxied
    if opener == "client":
        conversation.finding_at(frame, "proxy", "A client speaks to a broker through a proxy", broker=known)
    else:
        conversation.finding_at(frame, "proxy", "A proxy speaks for a client", proxy_version=known)


def _ack(
    conversation: Conversation, rows: PulsarRows, frame: Frame, command: PulsarCommand, request: PulsarRequest
) -> None:
    """A consumer may say in an ACK that it throws the message away, and why: a finding, and a row of `errors`."""
    number = command.fields.number(ACK_VALIDATION_ERROR, 0)
    name = VALIDATION.get(number)
    topic = request.topic
    positions = command.positions(ACK_MESSAGE_ID)[:_POSITIONS]
    conversation.finding_at(
        frame,
        "damaged_message",
        f"The consumer threw a message away: {name or number}",
        topic=None if topic is None else topic.name,
        partition=None if topic is None else topic.partition,
        positions=[f"{ledger & _ALL_ONES}:{entry & _ALL_ONES}" for ledger, entry in positions],
        error=name or number,
    )
    rows.error(error_code(number, name, topic, scope="message"), request)


REMARKABLE: dict[int, Callable[[Conversation, PulsarRows, Frame, PulsarCommand, PulsarRequest], None]] = {
    CONNECT: _connect,
    ACK: _ack,
}
"""Types of commands that are looked at."""
