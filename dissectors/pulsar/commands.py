"""Every command: who sends it, and what it has to do with the others.

The conversation is this table. A command takes one of four parts:

    REQUEST           expects an answer, found by the key `by`; the row lists them. ERROR answers every `request`.
    ANSWER            answers the request that the other side sent under the same key
    INITIAL_RESPONSE  answers the request under the same key; the next ones with that key come unrequested
    ONE_WAY           is not answered: `oneway` from a client, `push` from a broker

Two commands play two parts: CLOSE_PRODUCER and CLOSE_CONSUMER are requests of clients, but one-way from brokers (with a
request_id of 2^64-1); ACK is a request only where it carries a request_id.

Source: Pulsar binary protocol specification, "Interactions"; PulsarApi.proto for the ids that a command carries, and
the comments of its enum ProtocolVersion for the versions.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple

CLIENT, SERVER, EITHER = 1, 2, 3  # who may send it: bit 0 for the client, bit 1 for the server


class CommandRole(IntEnum):
    """What a command has to do with others."""

    REQUEST = 0
    ANSWER = 1
    INITIAL_RESPONSE = 2
    ONE_WAY = 3


REQUEST, ANSWER, INITIAL_RESPONSE, ONE_WAY = CommandRole

KEYS: dict[str, tuple[str, ...]] = {
    "connect": (),
    "challenge": (),
    "ping": (),
    "request": ("request_id",),
    "send": ("producer_id", "sequence_id"),  # FIFO within: all chunks of a message carry one sequence_id
    "ack": ("consumer_id", "request_id"),
    "layout": ("session_id",),
    "topics": ("watch_id",),
    "coordinators": ("watch_id",),
}
"""What ties an answer to its request: the fields that must be equal. Without fields: first come, first served."""


class CommandType(NamedTuple):
    """A row of the table."""

    code: int
    name: str
    sender: int
    part: CommandRole
    by: str = ""  # one of KEYS
    answers: tuple[str, ...] = ()
    about: str = ""  # how it names its topic: by a field of this name, or by the id of a producer, consumer …
    since: int = 0  # the protocol version that introduced it; of CLOSE_PRODUCER and CLOSE_CONSUMER: sent by a broker


_TABLE = (
    CommandType(2, "CONNECT", CLIENT, REQUEST, "connect", ("CONNECTED",)),
    CommandType(3, "CONNECTED", SERVER, ANSWER, "connect"),
    CommandType(4, "SUBSCRIBE", CLIENT, REQUEST, "request", ("SUCCESS",), "topic"),
    CommandType(5, "PRODUCER", CLIENT, REQUEST, "request", ("PRODUCER_SUCCESS",), "topic"),
    CommandType(6, "SEND", CLIENT, REQUEST, "send", ("SEND_RECEIPT", "SEND_ERROR"), "producer"),
    CommandType(7, "SEND_RECEIPT", SERVER, ANSWER, "send", (), "producer"),
    CommandType(8, "SEND_ERROR", SERVER, ANSWER, "send", (), "producer"),
    CommandType(9, "MESSAGE", SERVER, ONE_WAY, "", (), "consumer"),
    CommandType(10, "ACK", CLIENT, REQUEST, "ack", ("ACK_RESPONSE",), "consumer"),
    CommandType(11, "FLOW", CLIENT, ONE_WAY, "", (), "consumer"),
    CommandType(12, "UNSUBSCRIBE", CLIENT, REQUEST, "request", ("SUCCESS",), "consumer"),
    CommandType(13, "SUCCESS", SERVER, ANSWER, "request"),
    CommandType(14, "ERROR", SERVER, ANSWER, "request"),
    CommandType(15, "CLOSE_PRODUCER", EITHER, REQUEST, "request", ("SUCCESS",), "producer", since=5),
    CommandType(16, "CLOSE_CONSUMER", EITHER, REQUEST, "request", ("SUCCESS",), "consumer", since=5),
    CommandType(17, "PRODUCER_SUCCESS", SERVER, ANSWER, "request"),
    CommandType(18, "PING", EITHER, REQUEST, "ping", ("PONG",)),
    CommandType(19, "PONG", EITHER, ANSWER, "ping"),
    CommandType(20, "REDELIVER_UNACKNOWLEDGED_MESSAGES", CLIENT, ONE_WAY, "", (), "consumer", since=2),
    CommandType(
        21, "PARTITIONED_METADATA", CLIENT, REQUEST, "request", ("PARTITIONED_METADATA_RESPONSE",), "topic", since=7
    ),
    CommandType(22, "PARTITIONED_METADATA_RESPONSE", SERVER, ANSWER, "request", since=7),
    CommandType(23, "LOOKUP", CLIENT, REQUEST, "request", ("LOOKUP_RESPONSE",), "topic", since=7),
    CommandType(24, "LOOKUP_RESPONSE", SERVER, ANSWER, "request", since=7),
    CommandType(25, "CONSUMER_STATS", CLIENT, REQUEST, "request", ("CONSUMER_STATS_RESPONSE",), "consumer", since=8),
    CommandType(26, "CONSUMER_STATS_RESPONSE", SERVER, ANSWER, "request", since=8),
    CommandType(27, "REACHED_END_OF_TOPIC", SERVER, ONE_WAY, "", (), "consumer", since=9),
    CommandType(28, "SEEK", CLIENT, REQUEST, "request", ("SUCCESS",), "consumer"),
    CommandType(
        29, "GET_LAST_MESSAGE_ID", CLIENT, REQUEST, "request", ("GET_LAST_MESSAGE_ID_RESPONSE",), "consumer", 12
    ),
    CommandType(30, "GET_LAST_MESSAGE_ID_RESPONSE", SERVER, ANSWER, "request", since=12),
    CommandType(31, "ACTIVE_CONSUMER_CHANGE", SERVER, ONE_WAY, "", (), "consumer", since=12),
    CommandType(
        32, "GET_TOPICS_OF_NAMESPACE", CLIENT, REQUEST, "request", ("GET_TOPICS_OF_NAMESPACE_RESPONSE",), "", 12
    ),
    CommandType(33, "GET_TOPICS_OF_NAMESPACE_RESPONSE", SERVER, ANSWER, "request", since=12),
    CommandType(34, "GET_SCHEMA", CLIENT, REQUEST, "request", ("GET_SCHEMA_RESPONSE",), "topic"),
    CommandType(35, "GET_SCHEMA_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(36, "AUTH_CHALLENGE", SERVER, REQUEST, "challenge", ("AUTH_RESPONSE",), since=14),
    CommandType(37, "AUTH_RESPONSE", CLIENT, ANSWER, "challenge", since=14),
    CommandType(38, "ACK_RESPONSE", SERVER, ANSWER, "ack", (), "consumer"),
    CommandType(
        39, "GET_OR_CREATE_SCHEMA", CLIENT, REQUEST, "request", ("GET_OR_CREATE_SCHEMA_RESPONSE",), "topic", 15
    ),
    CommandType(40, "GET_OR_CREATE_SCHEMA_RESPONSE", SERVER, ANSWER, "request", since=15),
    CommandType(50, "NEW_TXN", CLIENT, REQUEST, "request", ("NEW_TXN_RESPONSE",)),
    CommandType(51, "NEW_TXN_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(
        52, "ADD_PARTITION_TO_TXN", CLIENT, REQUEST, "request", ("ADD_PARTITION_TO_TXN_RESPONSE",), "partitions"
    ),
    CommandType(53, "ADD_PARTITION_TO_TXN_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(
        54,
        "ADD_SUBSCRIPTION_TO_TXN",
        CLIENT,
        REQUEST,
        "request",
        ("ADD_SUBSCRIPTION_TO_TXN_RESPONSE",),
        "subscriptions",
    ),
    CommandType(55, "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(56, "END_TXN", CLIENT, REQUEST, "request", ("END_TXN_RESPONSE",)),
    CommandType(57, "END_TXN_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(58, "END_TXN_ON_PARTITION", CLIENT, REQUEST, "request", ("END_TXN_ON_PARTITION_RESPONSE",), "topic"),
    CommandType(59, "END_TXN_ON_PARTITION_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(
        60, "END_TXN_ON_SUBSCRIPTION", CLIENT, REQUEST, "request", ("END_TXN_ON_SUBSCRIPTION_RESPONSE",), "subscription"
    ),
    CommandType(61, "END_TXN_ON_SUBSCRIPTION_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(62, "TC_CLIENT_CONNECT_REQUEST", CLIENT, REQUEST, "request", ("TC_CLIENT_CONNECT_RESPONSE",), since=19),
    CommandType(63, "TC_CLIENT_CONNECT_RESPONSE", SERVER, ANSWER, "request", since=19),
    CommandType(64, "WATCH_TOPIC_LIST", CLIENT, REQUEST, "request", ("WATCH_TOPIC_LIST_SUCCESS",)),
    CommandType(65, "WATCH_TOPIC_LIST_SUCCESS", SERVER, ANSWER, "request"),
    CommandType(66, "WATCH_TOPIC_UPDATE", SERVER, ONE_WAY),
    CommandType(67, "WATCH_TOPIC_LIST_CLOSE", CLIENT, REQUEST, "request", ("SUCCESS",)),
    CommandType(68, "TOPIC_MIGRATED", SERVER, ONE_WAY, "", (), "resource", since=20),
    CommandType(70, "SCALABLE_TOPIC_LOOKUP", CLIENT, REQUEST, "layout", ("SCALABLE_TOPIC_UPDATE",), "topic"),
    CommandType(71, "SCALABLE_TOPIC_UPDATE", SERVER, INITIAL_RESPONSE, "layout"),
    CommandType(72, "SCALABLE_TOPIC_CLOSE", CLIENT, ONE_WAY),
    CommandType(
        73, "SCALABLE_TOPIC_SUBSCRIBE", CLIENT, REQUEST, "request", ("SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",), "topic"
    ),
    CommandType(74, "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", SERVER, ANSWER, "request"),
    CommandType(75, "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", SERVER, ONE_WAY, "", (), "scalable"),
    CommandType(76, "WATCH_SCALABLE_TOPICS", CLIENT, REQUEST, "topics", ("WATCH_SCALABLE_TOPICS_UPDATE",)),
    CommandType(77, "WATCH_SCALABLE_TOPICS_UPDATE", SERVER, INITIAL_RESPONSE, "topics"),
    CommandType(78, "WATCH_SCALABLE_TOPICS_CLOSE", CLIENT, ONE_WAY),
    CommandType(79, "WATCH_TC_ASSIGNMENTS", CLIENT, REQUEST, "coordinators", ("WATCH_TC_ASSIGNMENTS_UPDATE",)),
    CommandType(80, "WATCH_TC_ASSIGNMENTS_UPDATE", SERVER, INITIAL_RESPONSE, "coordinators"),
    CommandType(81, "WATCH_TC_ASSIGNMENTS_CLOSE", CLIENT, ONE_WAY),
)

COMMANDS: dict[int, CommandType] = {command.code: command for command in _TABLE}
SPACES: dict[int, tuple[str, tuple[str, ...]]] = {
    command.code: (
        (command.answers[0] if command.part is REQUEST else command.name) if command.by == "request" else command.by,
        KEYS.get(command.by, ()),
    )
    for command in _TABLE
}
"""Type -> what a key begins with, and the ids that follow.

A client may count its lookups and its other requests separately (C++ does), so a request_id is unique only among
requests that expect the same answer: their keys begin with the answer's name.
"""
PAYLOAD = frozenset((6, 9))  # SEND and MESSAGE: message metadata and payload follow the command
(
    CONNECT,
    CONNECTED,
    SUBSCRIBE,
    PRODUCER,
    SEND,
    SEND_RECEIPT,
    SEND_ERROR,
    MESSAGE,
    ACK,
    FLOW,
    UNSUBSCRIBE,
    SUCCESS,
    ERROR,
    CLOSE_PRODUCER,
    CLOSE_CONSUMER,
    PRODUCER_SUCCESS,
    PING,
    PONG,
    REDELIVER_UNACKNOWLEDGED_MESSAGES,
    PARTITIONED_METADATA,
    PARTITIONED_METADATA_RESPONSE,
    LOOKUP,
    LOOKUP_RESPONSE,
) = range(2, 25)
WATCH_TOPIC_LIST, WATCH_TOPIC_LIST_CLOSE, TOPIC_MIGRATED, SCALABLE_TOPIC_SUBSCRIBE = 64, 67, 68, 73

FAILING: tuple[str, ...] = tuple(
    sorted(
        {command.answers[0] for command in _TABLE if command.by == "request" and command.part is REQUEST},
        key=lambda answer: (answer.endswith("_RESPONSE"), answer),
    )
)
"""Where an ERROR looks for the request that failed: first among those whose own answer cannot carry an error."""

_REQUESTS_OF: dict[str, list[CommandType]] = {}
for _command in _TABLE:
    for _answer in _command.answers:
        _REQUESTS_OF.setdefault(_answer, []).append(_command)


def request_of(answer: CommandType) -> CommandType | None:
    """The request that an answer must belong to, where only one command has such an answer."""
    requests = _REQUESTS_OF.get(answer.name, [])
    return requests[0] if len(requests) == 1 else None


CLOSED_BY_BROKERS = frozenset((CLOSE_PRODUCER, CLOSE_CONSUMER))
"""Requests of clients that brokers send too, without expecting an answer."""


def part_of(command: CommandType, direction: int) -> CommandRole:
    """The part that a command takes, sent in a direction (0 by the client, 1 by the server); ACK: with a request id."""
    return ONE_WAY if command.code in CLOSED_BY_BROKERS and direction == 1 else command.part
