"""Every command: who sends it, and what it has to do with the others.

The conversation is this table. A command takes one of four parts:

    ASK     expects an answer, found by the key `by`; the row lists the answers. ERROR answers every `request`.
    ANSWER  answers what was asked under the same key by the other side
    FIRST   answers what was asked under the same key; the next ones with that key are told unasked
    TELL    is not answered: `oneway` from a client, `push` from a broker

Two commands play two parts: CLOSE_PRODUCER and CLOSE_CONSUMER are asked by clients but told by brokers (with a
request_id of 2^64-1); ACK asks only where it carries a request_id.

Source: Pulsar binary protocol specification, "Interactions"; PulsarApi.proto for the ids that a command carries.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

CLIENT, SERVER, EITHER = 1, 2, 3  # who may send it: bit 0 for the client, bit 1 for the server


class Part(Enum):
    ASK = "ask"
    ANSWER = "answer"
    FIRST = "first"
    TELL = "tell"


ASK, ANSWER, FIRST, TELL = Part

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
"""What ties an answer to what was asked: the fields that must be equal. Without fields: first come, first served."""


class Command(NamedTuple):
    """A row of the table."""

    code: int
    name: str
    sender: int
    part: Part
    by: str = ""  # one of KEYS
    answers: tuple[str, ...] = ()
    about: str = ""  # how it names its topic: by a field of this name, or by the id of a producer, consumer …


_TABLE = (
    Command(2, "CONNECT", CLIENT, ASK, "connect", ("CONNECTED",)),
    Command(3, "CONNECTED", SERVER, ANSWER, "connect"),
    Command(4, "SUBSCRIBE", CLIENT, ASK, "request", ("SUCCESS",), "topic"),
    Command(5, "PRODUCER", CLIENT, ASK, "request", ("PRODUCER_SUCCESS",), "topic"),
    Command(6, "SEND", CLIENT, ASK, "send", ("SEND_RECEIPT", "SEND_ERROR"), "producer"),
    Command(7, "SEND_RECEIPT", SERVER, ANSWER, "send", (), "producer"),
    Command(8, "SEND_ERROR", SERVER, ANSWER, "send", (), "producer"),
    Command(9, "MESSAGE", SERVER, TELL, "", (), "consumer"),
    Command(10, "ACK", CLIENT, ASK, "ack", ("ACK_RESPONSE",), "consumer"),
    Command(11, "FLOW", CLIENT, TELL, "", (), "consumer"),
    Command(12, "UNSUBSCRIBE", CLIENT, ASK, "request", ("SUCCESS",), "consumer"),
    Command(13, "SUCCESS", SERVER, ANSWER, "request"),
    Command(14, "ERROR", SERVER, ANSWER, "request"),
    Command(15, "CLOSE_PRODUCER", EITHER, ASK, "request", ("SUCCESS",), "producer"),
    Command(16, "CLOSE_CONSUMER", EITHER, ASK, "request", ("SUCCESS",), "consumer"),
    Command(17, "PRODUCER_SUCCESS", SERVER, ANSWER, "request"),
    Command(18, "PING", EITHER, ASK, "ping", ("PONG",)),
    Command(19, "PONG", EITHER, ANSWER, "ping"),
    Command(20, "REDELIVER_UNACKNOWLEDGED_MESSAGES", CLIENT, TELL, "", (), "consumer"),
    Command(21, "PARTITIONED_METADATA", CLIENT, ASK, "request", ("PARTITIONED_METADATA_RESPONSE",), "topic"),
    Command(22, "PARTITIONED_METADATA_RESPONSE", SERVER, ANSWER, "request"),
    Command(23, "LOOKUP", CLIENT, ASK, "request", ("LOOKUP_RESPONSE",), "topic"),
    Command(24, "LOOKUP_RESPONSE", SERVER, ANSWER, "request"),
    Command(25, "CONSUMER_STATS", CLIENT, ASK, "request", ("CONSUMER_STATS_RESPONSE",), "consumer"),
    Command(26, "CONSUMER_STATS_RESPONSE", SERVER, ANSWER, "request"),
    Command(27, "REACHED_END_OF_TOPIC", SERVER, TELL, "", (), "consumer"),
    Command(28, "SEEK", CLIENT, ASK, "request", ("SUCCESS",), "consumer"),
    Command(29, "GET_LAST_MESSAGE_ID", CLIENT, ASK, "request", ("GET_LAST_MESSAGE_ID_RESPONSE",), "consumer"),
    Command(30, "GET_LAST_MESSAGE_ID_RESPONSE", SERVER, ANSWER, "request"),
    Command(31, "ACTIVE_CONSUMER_CHANGE", SERVER, TELL, "", (), "consumer"),
    Command(32, "GET_TOPICS_OF_NAMESPACE", CLIENT, ASK, "request", ("GET_TOPICS_OF_NAMESPACE_RESPONSE",)),
    Command(33, "GET_TOPICS_OF_NAMESPACE_RESPONSE", SERVER, ANSWER, "request"),
    Command(34, "GET_SCHEMA", CLIENT, ASK, "request", ("GET_SCHEMA_RESPONSE",), "topic"),
    Command(35, "GET_SCHEMA_RESPONSE", SERVER, ANSWER, "request"),
    Command(36, "AUTH_CHALLENGE", SERVER, ASK, "challenge", ("AUTH_RESPONSE",)),
    Command(37, "AUTH_RESPONSE", CLIENT, ANSWER, "challenge"),
    Command(38, "ACK_RESPONSE", SERVER, ANSWER, "ack", (), "consumer"),
    Command(39, "GET_OR_CREATE_SCHEMA", CLIENT, ASK, "request", ("GET_OR_CREATE_SCHEMA_RESPONSE",), "topic"),
    Command(40, "GET_OR_CREATE_SCHEMA_RESPONSE", SERVER, ANSWER, "request"),
    Command(50, "NEW_TXN", CLIENT, ASK, "request", ("NEW_TXN_RESPONSE",)),
    Command(51, "NEW_TXN_RESPONSE", SERVER, ANSWER, "request"),
    Command(52, "ADD_PARTITION_TO_TXN", CLIENT, ASK, "request", ("ADD_PARTITION_TO_TXN_RESPONSE",), "partitions"),
    Command(53, "ADD_PARTITION_TO_TXN_RESPONSE", SERVER, ANSWER, "request"),
    Command(
        54, "ADD_SUBSCRIPTION_TO_TXN", CLIENT, ASK, "request", ("ADD_SUBSCRIPTION_TO_TXN_RESPONSE",), "subscriptions"
    ),
    Command(55, "ADD_SUBSCRIPTION_TO_TXN_RESPONSE", SERVER, ANSWER, "request"),
    Command(56, "END_TXN", CLIENT, ASK, "request", ("END_TXN_RESPONSE",)),
    Command(57, "END_TXN_RESPONSE", SERVER, ANSWER, "request"),
    Command(58, "END_TXN_ON_PARTITION", CLIENT, ASK, "request", ("END_TXN_ON_PARTITION_RESPONSE",), "topic"),
    Command(59, "END_TXN_ON_PARTITION_RESPONSE", SERVER, ANSWER, "request"),
    Command(
        60, "END_TXN_ON_SUBSCRIPTION", CLIENT, ASK, "request", ("END_TXN_ON_SUBSCRIPTION_RESPONSE",), "subscription"
    ),
    Command(61, "END_TXN_ON_SUBSCRIPTION_RESPONSE", SERVER, ANSWER, "request"),
    Command(62, "TC_CLIENT_CONNECT_REQUEST", CLIENT, ASK, "request", ("TC_CLIENT_CONNECT_RESPONSE",)),
    Command(63, "TC_CLIENT_CONNECT_RESPONSE", SERVER, ANSWER, "request"),
    Command(64, "WATCH_TOPIC_LIST", CLIENT, ASK, "request", ("WATCH_TOPIC_LIST_SUCCESS",)),
    Command(65, "WATCH_TOPIC_LIST_SUCCESS", SERVER, ANSWER, "request"),
    Command(66, "WATCH_TOPIC_UPDATE", SERVER, TELL),
    Command(67, "WATCH_TOPIC_LIST_CLOSE", CLIENT, ASK, "request", ("SUCCESS",)),
    Command(68, "TOPIC_MIGRATED", SERVER, TELL, "", (), "resource"),
    Command(70, "SCALABLE_TOPIC_LOOKUP", CLIENT, ASK, "layout", ("SCALABLE_TOPIC_UPDATE",), "topic"),
    Command(71, "SCALABLE_TOPIC_UPDATE", SERVER, FIRST, "layout"),
    Command(72, "SCALABLE_TOPIC_CLOSE", CLIENT, TELL),
    Command(73, "SCALABLE_TOPIC_SUBSCRIBE", CLIENT, ASK, "request", ("SCALABLE_TOPIC_SUBSCRIBE_RESPONSE",), "topic"),
    Command(74, "SCALABLE_TOPIC_SUBSCRIBE_RESPONSE", SERVER, ANSWER, "request"),
    Command(75, "SCALABLE_TOPIC_ASSIGNMENT_UPDATE", SERVER, TELL, "", (), "scalable"),
    Command(76, "WATCH_SCALABLE_TOPICS", CLIENT, ASK, "topics", ("WATCH_SCALABLE_TOPICS_UPDATE",)),
    Command(77, "WATCH_SCALABLE_TOPICS_UPDATE", SERVER, FIRST, "topics"),
    Command(78, "WATCH_SCALABLE_TOPICS_CLOSE", CLIENT, TELL),
    Command(79, "WATCH_TC_ASSIGNMENTS", CLIENT, ASK, "coordinators", ("WATCH_TC_ASSIGNMENTS_UPDATE",)),
    Command(80, "WATCH_TC_ASSIGNMENTS_UPDATE", SERVER, FIRST, "coordinators"),
    Command(81, "WATCH_TC_ASSIGNMENTS_CLOSE", CLIENT, TELL),
)

COMMANDS: dict[int, Command] = {command.code: command for command in _TABLE}
SPACES: dict[int, tuple[str, tuple[str, ...]]] = {
    command.code: (
        (command.answers[0] if command.part is ASK else command.name) if command.by == "request" else command.by,
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
) = range(2, 12)
SUCCESS, ERROR, CLOSE_PRODUCER, CLOSE_CONSUMER, PRODUCER_SUCCESS = range(13, 18)
PARTITIONED_METADATA_RESPONSE, LOOKUP_RESPONSE = 22, 24

FAILING: tuple[str, ...] = tuple(
    sorted(
        {command.answers[0] for command in _TABLE if command.by == "request" and command.part is ASK},
        key=lambda answer: (answer.endswith("_RESPONSE"), answer),
    )
)
"""Where an ERROR looks for the request that failed: first among those whose own answer cannot tell an error."""

_ASKED_BY: dict[str, list[Command]] = {}
for _command in _TABLE:
    for _answer in _command.answers:
        _ASKED_BY.setdefault(_answer, []).append(_command)


def asked_by(answer: Command) -> Command | None:
    """What an answer must have answered, where only one command has such an answer."""
    asking = _ASKED_BY.get(answer.name, [])
    return asking[0] if len(asking) == 1 else None
