"""What regular frames change in their connections: as calls to make in the order of the frames.

The same changes as PulsarState.update, LostRequests.update and PulsarDiagnostics.inspect, from columns. What consumers
receive is most of it and changes nothing that another frame needs, so these calls are made for many frames at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from dissectors.arrow import Ints
from dissectors.pulsar.api import text
from dissectors.pulsar.columnar import Messages
from dissectors.pulsar.command_columns import position
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.pulsar.decoded_frames import PulsarFrames
from dissectors.pulsar.diagnostics import CUMULATIVE, At, Consumption, Position, PulsarDiagnostics
from dissectors.pulsar.names import short
from dissectors.pulsar.orphans import ID_FIELDS
from dissectors.pulsar.subjects import Subject, unsigned

_new = tuple.__new__

Change = Callable[[PulsarConversation], None]
Changes = Iterator[tuple[int, Change]]
_ConsumerEvent = tuple[Callable[..., None], int, int, tuple[Any, ...]]
"""A method of the diagnostics; group of the consumer in Subjects, time and values for it."""


class _Regular(NamedTuple):
    """The regular frames of one command."""

    frames: PulsarFrames
    name: str
    which: Ints  # indices of the frames
    rows: Ints  # indices in messages
    messages: Messages

    def numbers(self, field: str) -> list[int]:
        """The values of a field, as they are on the wire: without a sign."""
        return unsigned(self.messages.number(field)[self.rows])

    def texts(self, field: str) -> list[str | None]:
        values = self.messages.texts(field, self.frames.frames.buf, self.rows)
        return [None if value is None else text(value) for value in values]


def _places(frames: PulsarFrames, which: Ints) -> list[At]:
    """When some frames came, and where they are."""
    facts = frames.frames.facts(which)
    columns = (facts.first_ns, facts.last_ns, facts.packet_ref, facts.offset)
    return list(map(_new, repeat(At), zip(*(column.tolist() for column in columns), strict=True)))


def changes(frames: PulsarFrames) -> Changes:
    """The frames that change what is known, and what each does to its conversation."""
    for name, effect in EFFECTS.items():
        if name in frames.found:
            _, which, messages, _ = frames.found[name]
            rows = np.flatnonzero(frames.regular[which])
            if len(rows):
                yield from effect(_Regular(frames, name, which[rows], rows, messages))


# --- logins ---


def _connects(regular: _Regular) -> Changes:
    for i, software in zip(regular.which.tolist(), regular.texts("client_version"), strict=True):
        yield i, partial(_connect, software or "")


def _connect(software: str, conversation: PulsarConversation) -> None:
    conversation.state.client_is(software)


def _accepts(regular: _Regular) -> Changes:
    version = regular.messages.number("protocol_version")[regular.rows].tolist()
    stated = regular.messages.has("protocol_version")[regular.rows].tolist()
    size = regular.messages.number("max_message_size")[regular.rows].tolist()
    columns = (regular.which.tolist(), regular.texts("server_version"), version, stated, size)
    for i, software, number, there, most in zip(*columns, strict=True):
        yield i, partial(_accept, software, number if there else None, most)


def _accept(software: str | None, version: int | None, most: int, conversation: PulsarConversation) -> None:
    conversation.state.accept_login(software, version, most)
    conversation.lower_limit()


# --- producers and consumers ---


def _introductions(regular: _Regular) -> Changes:
    columns = (regular.which.tolist(), regular.numbers(ID_FIELDS[regular.name]), _places(regular.frames, regular.which))
    for i, id_, at in zip(*columns, strict=True):
        yield i, partial(_introduce, regular.name, id_, regular.frames.subjects.at(i), at)


def _introduce(name: str, id_: int, subject: Subject, at: At, conversation: PulsarConversation) -> None:
    assert subject.endpoint is not None
    conversation.lost_requests.update_id(name, id_)
    if name == "PRODUCER":
        conversation.state.names.add_producer(id_, subject.endpoint)
        return
    conversation.state.names.add_consumer(id_, subject.endpoint)
    if conversation.diagnostics is not None:
        conversation.diagnostics.subscribe(id_, subject.endpoint, at)


def _confirmations(regular: _Regular) -> Changes:
    """A broker lets a producer in: the request says which."""
    requests = regular.frames.partner[regular.which]
    _, which, messages, _ = regular.frames.found["PRODUCER"]
    ids = unsigned(messages.number("producer_id")[np.searchsorted(which, requests)])
    stated = regular.messages.has("topic_epoch")[regular.rows].tolist()
    columns = (regular.which.tolist(), ids, regular.texts("producer_name"), regular.numbers("topic_epoch"), stated)
    for i, id_, name, epoch, there in zip(*columns, strict=True):
        yield i, partial(_confirm, id_, short(name or ""), epoch if there else None)


def _confirm(id_: int, name: str, epoch: int | None, conversation: PulsarConversation) -> None:
    conversation.state.names.accept(id_, name, epoch)


def _closings(regular: _Regular) -> Changes:
    for i, id_ in zip(regular.which.tolist(), regular.numbers(ID_FIELDS[regular.name]), strict=True):
        yield i, partial(_close, regular.name, id_)


def _close(name: str, id_: int, conversation: PulsarConversation) -> None:
    conversation.lost_requests.update_id(name, id_)


# --- what consumers receive ---


class ConsumerEvents:
    """The regular frames that show how consumers keep up, and the event that each makes, in their order."""

    def __init__(self, frames: PulsarFrames) -> None:
        which = [np.zeros(0, np.int64)]
        events: list[_ConsumerEvent] = []
        watched = frames.conversations[0].diagnostics is not None
        for name, (method, moment, values) in WATCHED_EFFECTS.items() if watched else ():
            if name in frames.found:
                _, each, messages, _ = frames.found[name]
                rows = np.flatnonzero(frames.regular[each])
                regular = _Regular(frames, name, each[rows], rows, messages)
                columns = (frames.subjects.group, getattr(frames.frames, moment))
                which.append(regular.which)
                events += zip(repeat(method), *(column[regular.which].tolist() for column in columns), values(regular))
        every = np.concatenate(which)
        turn = np.argsort(every)
        self.which = every[turn]  # the frames
        self._events = [events[k] for k in turn.tolist()]
        self._subjects = frames.subjects
        groups, first = np.unique(frames.subjects.group[self.which], return_index=True)
        self._begins = dict(zip(groups.tolist(), _places(frames, self.which[first]), strict=True))

    def take(self, begin: int, end: int, diagnostics: PulsarDiagnostics) -> None:
        """Let the diagnostics of a connection take some, whose groups were looked up."""
        known: dict[int, Consumption | None] = {}
        for method, group, ns, values in self._events[begin:end]:
            if group not in known:
                consumer = self._subjects.endpoints[group]
                known[group] = diagnostics.consumption(self._subjects.ids[group], consumer, self._begins[group])
            consumption = known[group]
            if consumption is not None:
                method(diagnostics, consumption, ns, *values)


def _grants(regular: _Regular) -> Iterable[tuple[Any, ...]]:
    return zip(regular.numbers("messagePermits"), strict=True)


def _departures(regular: _Regular) -> Iterable[tuple[Any, ...]]:
    return repeat(())


def _deliveries(regular: _Regular) -> Iterable[tuple[Any, ...]]:
    ledger, entry = position(regular.messages)
    entries = regular.frames.entries
    records = entries.columns.records[np.searchsorted(entries.which, regular.which)].tolist()
    again = (regular.messages.number("redelivery_count")[regular.rows] != 0).tolist()
    return zip(_positions(ledger[regular.rows], entry[regular.rows]), records, again, strict=True)


def _acknowledgements(regular: _Regular) -> Iterable[tuple[Any, ...]]:
    positions: list[list[Position]] = [[] for _ in regular.messages.ok]
    cumulative = regular.messages.number("ack_type") == CUMULATIVE
    ids = regular.messages.nested.get("message_id")
    if ids is not None:
        partial = ids.messages.has("ack_set")  # of its batch, messages are left
        which = np.flatnonzero(~partial | cumulative[ids.parent])
        ledger, entry = (unsigned(ids.messages.number(name)[which]) for name in ("ledgerId", "entryId"))
        columns = (ids.parent[which].tolist(), ledger, entry, partial[which].tolist())
        for row, number, last, less in zip(*columns, strict=True):
            positions[row].append((number, last - less))
    return zip([positions[row] for row in regular.rows.tolist()], cumulative[regular.rows].tolist(), strict=True)


def _positions(ledger: Ints, entry: Ints) -> list[Position]:
    return list(zip(unsigned(ledger), unsigned(entry), strict=True))


EFFECTS: dict[str, Callable[[_Regular], Changes]] = {
    "CONNECT": _connects,
    "CONNECTED": _accepts,
    "PRODUCER": _introductions,
    "PRODUCER_SUCCESS": _confirmations,
    "SUBSCRIBE": _introductions,
    "CLOSE_PRODUCER": _closings,
    "CLOSE_CONSUMER": _closings,
}
"""Commands that change something, and how."""

WATCHED_EFFECTS: dict[str, tuple[Callable[..., None], str, Callable[[_Regular], Iterable[tuple[Any, ...]]]]] = {
    "FLOW": (PulsarDiagnostics.grant, "last_ns", _grants),
    "MESSAGE": (PulsarDiagnostics.deliver, "last_ns", _deliveries),
    "ACK": (PulsarDiagnostics.acknowledge, "first_ns", _acknowledgements),
    "CLOSE_CONSUMER": (PulsarDiagnostics.leave, "first_ns", _departures),
    "UNSUBSCRIBE": (PulsarDiagnostics.leave, "first_ns", _departures),
}
"""Commands whose effect only findings need: what takes it, at which time, and with which values of the frames."""
