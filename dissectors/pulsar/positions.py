"""Rows of `positions` of Pulsar: where topics, subscriptions and consumers stand, as commands say it.

ACK                           entries that the subscription is done with; those of a batch of which messages are
                              left do not count
SEEK                          where the subscription is to go on
FLOW                          permits that a consumer adds
CONSUMER_STATS_RESPONSE       messages that wait for the subscription
GET_LAST_MESSAGE_ID_RESPONSE  the last message of the topic, and what the subscription has acknowledged
LOOKUP_RESPONSE               who owns the topic, where it says that a client may connect there
CLOSE_PRODUCER, CLOSE_CONSUMER  who owns the topic from now on, where the broker that hands it over says so

Brokers tell clients the owners of topics, not of bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.pulsar.decode import ID_SHAPE, PulsarCommand
from dissectors.pulsar.fields import (
    ACK_ACK_TYPE,
    ACK_MESSAGE_ID,
    ACK_TXNID_LEAST_BITS,
    CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL,
    CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL_TLS,
    CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL,
    CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL_TLS,
    CONSUMER_STATS_RESPONSE_MSG_BACKLOG,
    FLOW_MESSAGE_PERMITS,
    GET_LAST_MESSAGE_ID_RESPONSE_CONSUMER_MARK_DELETE_POSITION,
    GET_LAST_MESSAGE_ID_RESPONSE_LAST_MESSAGE_ID,
    ID_ACK_SET,
    LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL,
    LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL_TLS,
    LOOKUP_TOPIC_RESPONSE_RESPONSE,
    SEEK_MESSAGE_ID,
)
from dissectors.pulsar.pending import PulsarRequest
from dissectors.redaction import without_tokens
from dissectors.rows import fields
from dissectors.rows.layout import ABSENT
from dissectors.rows.table import RowTable
from dissectors.session.exchange import Report
from dissectors.session.frame import FrameFacts

CUMULATIVE = 1
CONNECT_THERE = 1  # LookupType.Connect


@compiled
def stated(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    """Write what a command of STATING says. facts: of its frame. request: that it answers, or itself."""
    STATING[command.code](report, facts, command, request)


def _ack(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    pending: cython.bint = command.fields.number(ACK_TXNID_LEAST_BITS, ABSENT) != ABSENT
    cumulative: cython.bint = command.fields.number(ACK_ACK_TYPE, 0) == CUMULATIVE
    start: cython.Py_ssize_t
    stop: cython.Py_ssize_t
    for start, stop in command.fields.each(ACK_MESSAGE_ID):
        command.id.read(ID_SHAPE, command.data, start, stop)
        partly: cython.bint = command.id.has(ID_ACK_SET)  # messages of its batch are left
        if cumulative or not partly:
            what = "pending" if pending else "committed"
            _write(report, facts, request, what, command.entry() - partly, command.ledger())


def _seek(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    if command.read_id(SEEK_MESSAGE_ID):
        _write(report, facts, request, "committed", command.entry(), command.ledger())


def _flow(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    _write(report, facts, request, "permits", command.fields.number(FLOW_MESSAGE_PERMITS, ABSENT), ABSENT)


def _stats(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    backlog: cython.longlong = command.number(CONSUMER_STATS_RESPONSE_MSG_BACKLOG)
    if backlog >= 0:
        _write(report, facts, request, "backlog", backlog, ABSENT)


def _last_message(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    for field, what in (
        (GET_LAST_MESSAGE_ID_RESPONSE_LAST_MESSAGE_ID, "high_watermark"),
        (GET_LAST_MESSAGE_ID_RESPONSE_CONSUMER_MARK_DELETE_POSITION, "committed"),
    ):
        if command.read_id(field):
            _write(report, facts, request, what, command.entry(), command.ledger())


def _lookup(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    if command.number(LOOKUP_TOPIC_RESPONSE_RESPONSE) == CONNECT_THERE:
        _owned(report, facts, request, owner_of(command))


def _closed(report: Report, facts: FrameFacts, command: PulsarCommand, request: PulsarRequest) -> None:
    """A producer or consumer was closed: the broker may say which one it should go to."""
    owner = owner_of(command)
    if owner:
        _owned(report, facts, request, owner)


def owner_of(command: PulsarCommand) -> str | None:
    """URL of the broker that a command of _OWNER_URLS names, without tokens; None where it names none."""
    plain, tls = _OWNER_URLS[command.code]
    url = command.fields.text(plain) or command.fields.text(tls)
    return without_tokens(url) if url else None


@compiled
def _owned(report: Report, facts: FrameFacts, request: PulsarRequest, owner: str | None) -> None:
    """Write which broker owns the topic, by its URL; None where the answer names none."""
    slot: cython.Py_ssize_t = _opened(report, facts, request, "leader")
    report.positions.put(slot, fields.POSITION_LEADER, owner)
    report.positions.finish(slot)


@compiled
def _write(
    report: Report,
    facts: FrameFacts,
    request: PulsarRequest,
    what: str,
    value: cython.longlong,
    ledger: cython.longlong,
) -> None:
    table: RowTable = report.positions
    slot: cython.Py_ssize_t = _opened(report, facts, request, what)
    table.waiting[slot, fields.POSITION_VALUE] = value
    table.waiting[slot, fields.POSITION_LEDGER] = ledger
    table.finish(slot)


@compiled
def _opened(report: Report, facts: FrameFacts, request: PulsarRequest, what: str) -> cython.Py_ssize_t:
    table: RowTable = report.positions
    slot: cython.Py_ssize_t = report.open_position(request, facts)
    table.put(slot, fields.POSITION_WHAT, what)
    if request.topic is not None:
        table.put(slot, fields.POSITION_TOPIC, request.topic.name)
        table.put(slot, fields.POSITION_PARTITION, request.topic.partition)
    return slot


STATING: Mapping[int, Callable[[Report, FrameFacts, PulsarCommand, PulsarRequest], None]] = {
    10: _ack,
    11: _flow,
    15: _closed,
    16: _closed,
    24: _lookup,
    26: _stats,
    28: _seek,
    30: _last_message,
}
"""Type of command -> what writes its rows."""

_OWNER_URLS = {
    15: (CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL, CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL_TLS),
    16: (CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL, CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL_TLS),
    24: (LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL, LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL_TLS),
}
"""Type of command -> the fields with the URL of the broker that owns the topic, without and with TLS."""
