"""One Pulsar connection: frames in, rows out. The work is done next door; this says in which order."""

from __future__ import annotations

import json
from typing import Any

from dissectors.conversation import Conversation, Frame, Summary
from dissectors.options import Options
from dissectors.pulsar import frames
from dissectors.pulsar.batches import Entry
from dissectors.pulsar.commands import (
    ACK,
    ASK,
    CLOSE_CONSUMER,
    CLOSE_PRODUCER,
    COMMANDS,
    CONNECT,
    CONNECTED,
    ERROR,
    FAILING,
    FIRST,
    PAYLOAD,
    PRODUCER_SUCCESS,
    SEND_ERROR,
    SEND_RECEIPT,
    SPACES,
    SUCCESS,
    TELL,
    Command,
    Part,
    asked_by,
)
from dissectors.pulsar.decode import Decoded, decode, first_number, to_dict
from dissectors.pulsar.emit import Emitter, signed
from dissectors.pulsar.entries import Entries, position_of
from dissectors.pulsar.errors import Fault, fault, may_fail
from dissectors.pulsar.match import Asked, Key, Matcher
from dissectors.pulsar.meaning import Meaning
from dissectors.pulsar.orphans import Orphans
from dissectors.pulsar.state import State
from dissectors.records import Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Gap

NOBODY = -1  # the request_id, 2^64-1, of what answers no request
_ALWAYS_ERRORS = frozenset((ERROR, SEND_ERROR))
_BROKERS_TELL = frozenset((CLOSE_PRODUCER, CLOSE_CONSUMER))  # clients ask for it, brokers just say so


class PulsarConversation(Conversation):
    """See dissectors.conversation.Conversation."""

    steady = True

    def __init__(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool = False) -> None:
        super().__init__(conn, sink, options, midstream=midstream)
        self.state = State(options.limits.pending // 10)
        self.matcher = Matcher(options.limits.pending)
        self.emit = Emitter(conn, sink, self.state)
        self.entries = Entries(self, self.state)
        self.meaning = Meaning(self, self.emit) if {"findings", "errors"} & sink.tables else None
        self.limit = options.limits.frame_bytes  # of a frame, as far as this connection has told
        self._full = sink.full and "exchanges" in sink.tables
        self.orphans = Orphans()
        self._ends = 0  # stream offset at which the client's last frame ended
        self._newcomers: set[int] = set()  # types that no table knows, and that were told

    # --- frames ---

    def measure(self, direction: int, buf: bytes, pos: int, end: int) -> int:
        return frames.measure(buf, pos, end, self.options.limits.frame_bytes)

    def resync(self, direction: int, buf: bytes, pos: int, end: int, final: bool) -> tuple[int, bool]:
        limit = self.limit if direction == SERVER else self.options.limits.frame_bytes  # told by frames before, or not
        return frames.search(buf, pos, end, limit, direction, final)

    def on_gap(self, direction: int, gap: Gap) -> None:
        self.matcher.gap(direction, gap.order)
        if direction == CLIENT and gap.offset == self._ends:
            self.orphans.lost(gap.order, self.frames, gap.length)

    def on_frame(self, frame: Frame) -> None:
        decoded = decode(frame, self.options.limits.command_bytes)
        if frame.direction == CLIENT:
            self._ends = frame.offset + frame.size
        if decoded.defect is not None:
            self.finding_at(frame, "malformed_frame", "error", decoded.defect, type=decoded.code)
        if frame.size > self.limit:
            self.finding_at(
                frame, "oversized_frame", "warning", "A frame larger than the broker allows", limit=self.limit
            )
        command = decoded.command
        if command is None:
            self._newcomer(frame, decoded)
            return
        part = _part(command, frame.direction, decoded.body)
        if part is ASK:
            self._ask(frame, decoded, command)
        elif part is TELL:
            self._tell(frame, decoded, command)
        else:
            self._answer(frame, decoded, command, part)

    def on_close(self) -> None:
        for asked in self.matcher.rest():
            self._give_up(asked)
        if self.meaning is not None:
            self.meaning.close()

    def summary(self) -> Summary:
        state = self.state
        return (
            super()
            .summary()
            ._replace(
                dialect=state.dialect,
                client_software=state.client_software,
                client_version=state.client_version,
                server_version=state.server_version,
            )
        )

    # --- the parts that a command may take ---

    def _ask(self, frame: Frame, decoded: Decoded, command: Command) -> None:
        key = _key(command, decoded.body)
        asked = self._noted(frame, decoded, command, key)
        self._describe(asked, frame, decoded, command)
        if decoded.body is not None:
            self._learn(frame, command, decoded.body, asked, asked)
        if key is None and decoded.cut and SPACES[command.code][0]:
            key = (SPACES[command.code][0], None)  # its id was not captured
        if key is None:
            self._give_up(asked)
        else:
            self._open(frame.direction, key, asked)

    def _tell(self, frame: Frame, decoded: Decoded, command: Command) -> None:
        told = self._noted(frame, decoded, command, _key(command, decoded.body))
        self._describe(told, frame, decoded, command)
        if decoded.body is not None:
            self._learn(frame, command, decoded.body, told, told)
        self.emit.told(frame.direction, told)

    def _answer(self, frame: Frame, decoded: Decoded, command: Command, part: Part) -> None:
        body = decoded.body
        key = _key(command, body)
        told = self._noted(frame, decoded, command, key)
        open_key = self._answered(frame, command, key, decoded.cut)
        asked = None if open_key is None else self.matcher.peek(frame.direction, open_key)
        error = None
        if body is not None:
            error = fault(body)
            self._learn(frame, command, body, told, asked or told)
        if error is None and command.code in _ALWAYS_ERRORS:
            error = Fault(None, None, None)  # which one was not captured
        if decoded.cut and error is None and may_fail(command.code):
            told.status = "unknown"  # what would tell of an error was not captured
        if open_key is None or asked is None:
            self._describe(told, frame, decoded, command)
            self._unasked(frame, told, command, part, key, error)
        elif command.code == PRODUCER_SUCCESS and body is not None and not body.producer_ready:
            asked.waits = True  # the producer is queued for an exclusive topic: the answer proper is still to come
            told.topic, told.topics, told.partitions = asked.topic, asked.topics, asked.partitions
            self.emit.told(frame.direction, told)
        else:
            self._close(frame, open_key, told, error)

    def _learn(self, frame: Frame, command: Command, body: Any, noted: Asked, asked: Asked) -> None:
        """`noted`: this command; `asked`: the request that it answers, or itself."""
        self.state.learn(command.name, body, asked)
        self.orphans.see(command.name, body)
        if command.code == CONNECTED and self.state.max_message_size is not None:
            self.limit = min(self.limit, self.state.max_message_size + frames.PADDING)
        if self.meaning is not None:
            self.meaning.see(frame, command, body, noted)

    def _unasked(
        self, frame: Frame, told: Asked, command: Command, part: Part, key: Key | None, error: Fault | None
    ) -> None:
        """An answer to nothing that is open: its request was not captured, or it needs none."""
        filler = told.correlation_id == NOBODY
        if command.code == ERROR and filler and not self.state.connected:
            told.api, told.code, told.correlation_id = COMMANDS[CONNECT].name, CONNECT, None
            self.emit.response(told, "orphan", error)
        elif part is FIRST or filler:
            self.emit.told(frame.direction, told, error)
        else:
            if command.code == SUCCESS and key is not None:
                told.command = self.orphans.explain(frame.order, self.frames, key[-1]) or command
            if told.command is not None and told.command.part is not ASK and asked_by(told.command) is None:
                self._tell_orphan(frame, told, command, error)
            else:
                self.emit.response(told, "orphan", error)

    def _tell_orphan(self, frame: Frame, told: Asked, command: Command, error: Fault | None) -> None:
        """An answer that many requests may have: a finding, for no row can say which exchange it is half of."""
        if error is not None:
            self.emit.error(told, told.first_ns, told.place, error)
        self.finding_at(
            frame,
            "orphan",
            "info",
            f"{command.name} answers a request that was not captured",
            correlation_id=told.correlation_id,
        )

    def _newcomer(self, frame: Frame, decoded: Decoded) -> None:
        """A command that is newer than the table. Most carry a request id in field 1; that is all we go by."""
        if decoded.code not in self._newcomers and len(self._newcomers) < 64:
            self._newcomers.add(decoded.code)
            self.finding_at(
                frame, "unknown_api", "warning", f"Command type {decoded.code} is not known", type=decoded.code
            )
        number = first_number(frame, decoded.after)
        told = Asked(decoded.code, str(decoded.code), None, frame, None if number is None else signed(number))
        key = ("newcomer", number)
        if number is not None and self.matcher.peek(frame.direction, key) is not None:
            self._close(frame, key, told, None)
        elif number is not None and frame.direction == CLIENT:
            self._open(frame.direction, key, told)
        else:
            self.emit.told(frame.direction, told)

    # --- open requests ---

    def _open(self, direction: int, key: Key, asked: Asked) -> None:
        overdue = self.matcher.ask(direction, key, asked)
        if overdue is not None:
            self._give_up(overdue)

    def _answered(self, frame: Frame, command: Command, key: Key | None, cut: bool) -> Key | None:
        """The key under which something is open that this command answers."""
        direction = frame.direction
        if key is None:
            return self.matcher.only(direction, SPACES[command.code][0]) if cut else None
        if command.by == "ping":
            for lost in self.matcher.outlived(direction, key, frame.order):
                self._give_up(lost)
        if self.matcher.peek(direction, key) is not None:
            return key
        nameless = self.matcher.nameless(direction, key[0])
        if nameless is not None:
            return nameless
        if command.by != "request":
            return None
        keys = [("newcomer", *key[1:])]
        if command.code == ERROR:
            keys = [(space, *key[1:]) for space in FAILING] + keys
            keys.append(("connect",))  # a refused login is told with a filler for an id
        return next((key for key in keys if self.matcher.peek(direction, key) is not None), None)

    def _close(self, frame: Frame, key: Key, told: Asked, error: Fault | None) -> None:
        asked = self.matcher.answer(frame.direction, key)
        assert asked is not None
        if asked.correlation_id is None:
            asked.correlation_id = told.correlation_id
        self.entries.settle(asked, told, error)
        self.emit.call(asked, frame, told, error)

    def _give_up(self, asked: Asked) -> None:
        self.entries.settle(asked, None, None)
        self.emit.request(asked, "oneway" if asked.command is None else "unanswered")

    # --- what a row needs of a frame ---

    def _noted(self, frame: Frame, decoded: Decoded, command: Command, key: Key | None) -> Asked:
        noted = Asked(command.code, command.name, command, frame, signed(key[-1]) if key and len(key) > 1 else None)
        body = decoded.body
        if command.code == SEND_RECEIPT and body is not None and body.HasField("message_id"):
            noted.position = position_of(body.message_id)
        if self._full and command.code not in PAYLOAD:
            noted.body = _text(body, None)
        return noted

    def _describe(self, noted: Asked, frame: Frame, decoded: Decoded, command: Command) -> None:
        """What a command is about, and what it carries."""
        self.state.subject(noted, command, decoded.body)
        if command.code in PAYLOAD:
            entry = self.entries.read(frame, decoded, noted)
            if self._full:
                noted.body = _text(decoded.body, entry)


def _part(command: Command, direction: int, body: Any) -> Part:
    if command.part is ASK and (
        (command.code in _BROKERS_TELL and direction == SERVER)
        or (command.code == ACK and not (body is not None and body.HasField("request_id")))
    ):
        return TELL
    return command.part


def _key(command: Command, body: Any) -> Key | None:
    """What answers to this command are found by; None where an id is missing, or where there is nothing to find."""
    space, ids = SPACES[command.code]
    if not ids:
        return (space,) if space else None
    if body is None or not body.HasField(ids[-1]):
        return None
    if len(ids) == 1:
        return space, getattr(body, ids[0])
    return (space, getattr(body, ids[0]), getattr(body, ids[1])) if body.HasField(ids[0]) else None


def _text(body: Any, entry: Entry | None) -> str | None:
    """A command as JSON: its fields, and the metadata that came with it."""
    if body is None:
        return None
    shown = to_dict(body)
    if entry is not None:
        if entry.broker is not None:
            shown["broker_entry_metadata"] = to_dict(entry.broker)
        if entry.meta is not None:
            shown["metadata"] = to_dict(entry.meta)
    return json.dumps(shown, separators=(",", ":"), ensure_ascii=False)
