"""The commands of many frames at once, and which of them are regular.

A command is regular where its row follows from its fields alone, also where these say an error. It is irregular, and
left to its conversation, where it has a rule of its own, or where it is not plain (columnar.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dissectors.arrow import Bools, Ints, Octets
from dissectors.frame_columns import Measure, integers
from dissectors.inbox import INVALID, MORE
from dissectors.pulsar import columnar
from dissectors.pulsar.api import MESSAGES
from dissectors.pulsar.columnar import Messages
from dissectors.pulsar.commands import ACK, COMMANDS, CommandRole, CommandType
from dissectors.pulsar.errors import ERROR_FIELDS, FAILED_RESPONSES, REDIRECT
from dissectors.pulsar.frames import LEAST, TYPE_TAG, tag
from dissectors.wire import varint

_ALL_ONES = -1  # 2^64-1 as a signed number
_GREATEST_INT32 = (1 << 31) - 1

_SUBJECTS = frozenset({"", "topic", "producer", "consumer"})  # what a regular command may be about
_IRREGULAR = frozenset({
    "SEND_ERROR", "AUTH_CHALLENGE", "AUTH_RESPONSE", "REDELIVER_UNACKNOWLEDGED_MESSAGES",
    "WATCH_TOPIC_LIST", "WATCH_TOPIC_LIST_CLOSE", "SCALABLE_TOPIC_SUBSCRIBE",
})  # fmt: skip
_IRREGULAR_FIELDS: dict[str, tuple[str, ...]] = {
    "MESSAGE": ("ack_set",),
    "ACK": ("validation_error",),
    "CONNECT": ("proxy_to_broker_url", "original_principal", "proxy_version"),
}
"""Fields that, where present, make a command irregular."""


def _regular() -> dict[int, CommandType]:
    irregular_keys = {command.by for command in COMMANDS.values() if command.part is CommandRole.INITIAL_RESPONSE}
    return {
        code: command
        for code, command in COMMANDS.items()
        if command.name not in _IRREGULAR and command.by not in irregular_keys and command.about in _SUBJECTS
    }


REGULAR = _regular()
"""Commands that may be regular, by their number on the wire, which is less than 128."""


_CODES = max(REGULAR) + 1
IS_REGULAR = np.isin(np.arange(256), list(REGULAR))
"""Whether the commands of a type may be regular, by the first byte of the type."""

_ANSWERED = [code for code, command in COMMANDS.items() if command.part is CommandRole.REQUEST and code != ACK]
_IS_REQUEST = np.isin(np.arange(256), _ANSWERED)  # an ACK seldom is

_LONG_TAGS = np.arange(_CODES) > 15  # the tag of the command's own field has two bytes
_TAG_SIZES = 1 + _LONG_TAGS
_TAGS = np.array([int.from_bytes(tag(code).ljust(2, b"\0"), "big") for code in range(_CODES)])
_TAG_MASKS = np.where(_LONG_TAGS, 0xFFFF, 0xFF00)


class Commands(NamedTuple):
    """Commands of one type in some frames."""

    command: CommandType
    which: Ints  # indices of the frames
    messages: Messages
    irregular: Bools


def measure(limit: int) -> Measure:
    """frames.measure, for many."""

    def sizes(client: Bools, octets: Octets, start: Ints, stop: Ints) -> Ints:
        total, command = unsigned_32(octets, start), unsigned_32(octets, start + 4)
        fits = (command + 4 <= total) & (total <= limit) & (command >= 2) & (octets[start + 8] == TYPE_TAG)
        return np.where(stop - start < LEAST, MORE, np.where(fits, total + 4, INVALID))

    return sizes


def measure_announced(limit: int) -> Measure:
    """The same by the announced size alone."""

    def sizes(client: Bools, octets: Octets, start: Ints, stop: Ints) -> Ints:
        total = unsigned_32(octets, start)
        return np.where(
            stop - start < LEAST, MORE, np.where((total >= LEAST - 4) & (total <= limit), total + 4, INVALID)
        )

    return sizes


def requests(octets: Octets, start: Ints) -> Bools:
    """Whether the commands of some frames are requests."""
    found: Bools = _IS_REQUEST[octets[start + 9]]
    return found


def unsigned_32(octets: Octets, at: Ints) -> Ints:
    """The unsigned big-endian integers of four bytes at each index."""
    return integers(octets, at, 4) & 0xFFFFFFFF


def read(octets: Octets, which: Ints, code: Ints, start: Ints, after: Ints) -> list[Commands]:
    """The regular commands among those in the frames `which`, by type.

    code: the types of the commands; start, after: where the frames start and the commands end. Frames that hold
    anything beside the type and the command's own field are left out.
    """
    size, body, malformed = varint.many(octets, start + 10 + _TAG_SIZES[code])
    plain = (integers(octets, start + 10, 2) & _TAG_MASKS[code]) == _TAGS[code]
    plain &= body + size == after
    plain[malformed] = False
    among = np.flatnonzero(plain)
    among = among[np.argsort(code[among], kind="stable")]
    codes, counts = np.unique(code[among], return_counts=True)
    commands = [REGULAR[number] for number in codes.tolist()]
    found = columnar.read(
        [MESSAGES[command.code] for command in commands], counts.tolist(), octets, body[among], after[among]
    )
    frames, ends = which[among], np.cumsum(counts)
    return [
        Commands(command, frames[end - count : end], messages, _irregular(command, messages))
        for command, count, end, messages in zip(commands, counts.tolist(), ends.tolist(), found, strict=True)
    ]


def errors(command: CommandType, messages: Messages) -> Bools:
    """Which of some commands say an error."""
    name = MESSAGES[command.code]
    out = np.zeros(len(messages.ok), bool)
    if name in ERROR_FIELDS:
        out |= messages.has(ERROR_FIELDS[name][0].name)
    if name in FAILED_RESPONSES:
        out |= messages.has("response") & (messages.number("response") == FAILED_RESPONSES[name])
    return out


def position(messages: Messages) -> tuple[Ints, Ints]:
    """Ledger and entry of the field message_id, as signed numbers."""
    ledger, entry = np.zeros(len(messages.ok), np.int64), np.zeros(len(messages.ok), np.int64)
    ids = messages.nested.get("message_id")
    if ids is not None:
        ledger[ids.parent], entry[ids.parent] = ids.messages.number("ledgerId"), ids.messages.number("entryId")
    return ledger, entry


def _irregular(command: CommandType, messages: Messages) -> Bools:
    out = ~messages.ok
    for field in _IRREGULAR_FIELDS.get(command.name, ()):
        out |= messages.has(field)
    rule = _RULES.get(command.name)
    return out if rule is None else out | rule(messages)


def _reads_compacted(messages: Messages) -> Bools:
    return np.asarray(messages.number("read_compacted") != 0)


def _counts_too_many(messages: Messages) -> Bools:
    return np.asarray(messages.number("partitions") > _GREATEST_INT32)


def _announces_another_answer(messages: Messages) -> Bools:
    return np.asarray(messages.number("producer_ready", 1) == 0)


def _reports_a_duplicate(messages: Messages) -> Bools:
    ledger, entry = position(messages)
    return np.asarray(messages.has("message_id") & (ledger == _ALL_ONES) & (entry == _ALL_ONES))


def _sends_on(messages: Messages) -> Bools:
    return np.asarray(messages.has("response") & (messages.number("response") == REDIRECT))


_RULES: dict[str, Callable[[Messages], Bools]] = {
    "SUBSCRIBE": _reads_compacted,
    "PARTITIONED_METADATA_RESPONSE": _counts_too_many,
    "PRODUCER_SUCCESS": _announces_another_answer,
    "SEND_RECEIPT": _reports_a_duplicate,
    "LOOKUP_RESPONSE": _sends_on,
}
"""What else makes a command irregular."""
