"""Many frames of many connections at once: commands, matching, entries and rows by column.

`PulsarConversation` takes one frame after the other, through the protobuf library. Most frames need none of its care:
the command is regular (command_columns.py), request and answer are both at hand, the entry is whole and its checksum
right (entry_columns.py). What such a frame changes in its connection (the names of producers and consumers, what
consumers have received) happens in the order of the frames; the rest goes by column. All other frames go to their
conversation one by one, in their place in that order:

    sends that fail, authentication, watchers, scalable topics           rare, with rules of their own
    requests whose answer is not at hand, answers whose request is not   they wait, or are orphans
    chunks, markers, compacted or damaged entries, news of encryption    they have a state, or findings

Which frames are regular follows from their bytes and from what is open, so both ways give the same rows; a property
test compares them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame_columns import NONE, decode_together, distinct
from dissectors.pulsar import command_columns, commands, entry_columns
from dissectors.pulsar.command_columns import REGULAR, Commands
from dissectors.pulsar.commands import CLOSED_BY_BROKERS, COMMANDS, FAILING, SPACES, CommandRole, part_of
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.pulsar.decode import decode
from dissectors.pulsar.decoded_frames import DecodedEntries, PulsarFrames
from dissectors.pulsar.effects import ConsumerEvents, changes
from dissectors.pulsar.emit import signed
from dissectors.pulsar.entry_columns import EntryColumns
from dissectors.pulsar.frames import PADDING
from dissectors.pulsar.match import key_of
from dissectors.pulsar.row_columns import report_batches, report_errors, report_exchanges
from dissectors.pulsar.subjects import unsigned

_SPACES = tuple(dict.fromkeys(space for space, _ in SPACES.values() if space))
_SPACE_CODES = {space: code for code, space in enumerate(_SPACES)}
_CONNECT = _SPACE_CODES["connect"]
_REQUESTS = [_SPACE_CODES[space] for space in FAILING]
_OF_REGULAR = {SPACES[code][0] for code in REGULAR} - {""}
_KEYED = [code for code in COMMANDS if SPACES[code][0] in _OF_REGULAR or code == commands.ERROR]
_PAYLOAD = tuple(commands.PAYLOAD)
_NAMING = (commands.PRODUCER, commands.PRODUCER_SUCCESS, commands.SUBSCRIBE)  # they change what ids stand for


def advance(conversations: Sequence[PulsarConversation]) -> None:
    """As Conversation.advance, for many."""
    decode_together(
        conversations,
        lambda frames: PulsarExchanges(frames).decode(),
        command_columns.measure,
        command_columns.measure_announced,
        command_columns.requests,
    )


class PulsarExchanges(PulsarFrames):
    """How the frames of a step become rows."""

    def decode(self) -> None:
        """Every frame: the regular ones here, the others by their conversations."""
        self._read_commands()
        self._match()
        self._read_entries()
        self._in_order()
        report_errors(self)
        report_exchanges(self)
        report_batches(self)

    # --- commands ---

    def _read_commands(self) -> None:
        frames = self.frames
        fits = self.after - frames.start - 8 <= self.limits.command_bytes
        which = np.flatnonzero(command_columns.IS_REGULAR[self.code] & fits & ~self._shown())
        for found in command_columns.read(
            frames.octets, which, self.code[which], frames.start[which], self.after[which]
        ):
            self.found[found.command.name] = found
            self.read[found.which] = found.messages.ok
            self._set_keys(found)
        self._set_keys_of_others(np.flatnonzero(~self.read & np.isin(self.code, _KEYED)))
        self._set_keys_of_errors()
        self._read_logins()
        counts = np.bincount(frames.conversation, minlength=len(self.conversations)).tolist()
        each = zip(self.conversations, counts, strict=True)
        irregular = np.array([not conversation.pending.pairs_by_key(count) for conversation, count in each])
        self.regular &= ~irregular[frames.conversation]

    def _shown(self) -> Bools:
        """The commands whose exchanges are reported with their bodies."""
        sink = self.conversations[0].sink
        return np.isin(self.code, [code for code, command in COMMANDS.items() if sink.wants_body(command.name)])

    def _set_keys(self, found: Commands) -> None:
        """What ties these commands to their requests or answers; which of them may be regular."""
        command, which, messages, irregular = found
        client = self.frames.client[which]
        sent = (client & bool(command.sender & 1)) | (~client & bool(command.sender & 2))
        keyed = messages.ok & (command.part is not CommandRole.ONE_WAY)
        if command.code in CLOSED_BY_BROKERS:
            keyed &= client
            sent &= client
        if command.code == commands.ACK:
            keyed &= messages.has("request_id")
        space, ids = SPACES[command.code]
        whole = np.ones(len(which), bool)
        for number, name in enumerate(ids):
            self.ids[number, which] = messages.number(name)
            whole &= messages.has(name)
        if ids:
            self.correlation_id[which], self.uncorrelated[which] = messages.number(ids[-1]), ~whole
        if space:
            self.space[which[keyed & whole]] = _SPACE_CODES[space]
        self.request[which] = keyed & (command.part is CommandRole.REQUEST)
        self.regular[which] = sent & ~irregular & (whole | ~keyed)
        self.error[which] = command_columns.errors(command, messages)

    def _set_keys_of_errors(self) -> None:
        """An ERROR has the key of its request, if it can be about no other frame: several may have its id.

        One that refuses a login has an id of its own: it is known by having come alone, behind the CONNECT.
        """
        if "ERROR" not in self.found:
            return
        t, ids, errors = self.frames.conversation, self.ids[0], self.found["ERROR"].which
        errors = errors[self.read[errors]]
        concerned = np.zeros(len(self.conversations), bool)
        concerned[t[errors]] = True
        others = np.flatnonzero(concerned[t] & np.isin(self.space, _REQUESTS))
        frames_of = np.bincount(t)
        by_id: dict[tuple[int, int], list[int]] = {}
        for i, key in zip(others.tolist(), zip(t[others].tolist(), ids[others].tolist(), strict=True), strict=True):
            by_id.setdefault(key, []).append(i)
        for i, key in zip(errors.tolist(), zip(t[errors].tolist(), ids[errors].tolist(), strict=True), strict=True):
            login = self.code[i - 1] == commands.CONNECT and t[i - 1] == key[0] and frames_of[key[0]] == 2
            first, *more = by_id.pop(key, [i - 1 if login else i])
            refused = first < i and self.request[first] and self.frames.client[first] and self.regular[i] and not more
            if refused and not self.conversations[key[0]].pending:
                self.space[i], self.ids[:, i] = self.space[first], self.ids[:, first]
                self.correlation_id[first], self.uncorrelated[first] = key[1], False
            else:
                self.failed.add(key)

    def _set_keys_of_others(self, which: Ints) -> None:
        """The keys of commands that only the library can read."""
        for i, frame in zip(which.tolist(), self.frames.each(which), strict=True):
            decoded = decode(frame, self.limits.command_bytes)
            command, body = decoded.command, decoded.body
            key = None if command is None or body is None else key_of(command, body)
            if command is None or key is None:
                continue
            ids = [signed(id_) for id_ in key[1:]]
            part = part_of(command, frame.direction, body)
            if command.code == commands.ERROR:
                self.failed.add((int(self.frames.conversation[i]), ids[0]))
            elif part is not CommandRole.ONE_WAY:
                self.request[i] = part is CommandRole.REQUEST
                self.space[i] = _SPACE_CODES[key[0]]
                self.ids[: len(ids), i] = ids

    def _read_logins(self) -> None:
        """Where connections learn their dialect, and how large a frame may be without a finding."""
        frames = self.frames
        limit = np.array([conversation.limit for conversation in self.conversations])
        accepted = np.flatnonzero(self.code == commands.CONNECTED)
        conversation = frames.conversation[accepted]
        self.connected[conversation] = accepted
        irregular = np.bincount(conversation, minlength=len(limit)) > 1
        irregular[conversation[~self.read[accepted]]] = True
        if "CONNECTED" in self.found:
            _, which, messages, _ = self.found["CONNECTED"]
            size = messages.number("max_message_size")
            stated = messages.ok & (size > 0)
            np.minimum.at(limit, frames.conversation[which[stated]], size[stated] + PADDING)
        self.regular &= (frames.end - frames.start <= limit[frames.conversation]) & ~irregular[frames.conversation]

    # --- requests and answers ---

    def _match(self) -> None:
        """Pair requests and answers, under keys of which one request at most is open at any time."""
        keyed = np.flatnonzero(self.space >= 0)
        if len(keyed):
            requester = np.where(self.request[keyed], self.direction[keyed], 1 - self.direction[keyed])
            keys = np.stack((self.frames.conversation[keyed], requester, self.space[keyed], *self.ids[:, keyed]))
            turn = np.lexsort(keys[::-1])
            keyed, keys = keyed[turn], keys[:, turn]
            head = np.append(True, (keys[:, 1:] != keys[:, :-1]).any(axis=0))
            first, group = np.flatnonzero(head), np.cumsum(head) - 1
            second = (np.arange(len(keyed)) - first[group]) % 2 == 1
            irregular = np.logical_or.reduceat(self.request[keyed] == second, first)
            self._exclude_open(keys[:, first], irregular)
            pair = np.flatnonzero(second & ~irregular[group])
            requests, answers = keyed[pair - 1], keyed[pair]
            self.partner[requests], self.partner[answers] = answers, requests
            left_out = np.cumsum(~self.regular[keyed])
            before = np.append(0, left_out)[first]  # in the groups before
            self.regular[keyed] &= left_out == before[group]  # an answer that is irregular may leave its request open
        self.regular &= (self.partner >= 0) | (self.space == NONE)
        self._agree()

    def _exclude_open(self, keys: Ints, irregular: Bools) -> None:
        """Leave out the keys under which a request is open from before, or that an ERROR may answer."""
        open_keys = {
            (t, direction, _SPACE_CODES[space], *map(signed, ids), *(0,) * (2 - len(ids)))
            for t, conversation in enumerate(self.conversations)
            for direction, (space, *ids) in conversation.pending.open_keys()
            if space in _SPACE_CODES and None not in ids
        }
        if open_keys:
            waiting = np.zeros(len(self.conversations), bool)
            waiting[[key[0] for key in open_keys]] = True
            which = np.flatnonzero(waiting[keys[0]])
            irregular[which] |= np.array([key in open_keys for key in zip(*keys[:, which].tolist(), strict=True)], bool)
        if self.failed:
            failed = np.zeros(len(self.conversations), bool)
            failed[[t for t, _ in self.failed]] = True
            for i in np.flatnonzero(failed[keys[0]]).tolist():
                t, _, code, id_, _ = keys[:, i].tolist()
                irregular[i] |= code == _CONNECT or (code in _REQUESTS and (t, id_) in self.failed)

    def _agree(self) -> None:
        """A request and its answer are both regular, or neither is."""
        requests = np.flatnonzero(self.request & (self.partner >= 0))
        answers = self.partner[requests]
        self.regular[requests] = self.regular[answers] = self.regular[requests] & self.regular[answers]

    # --- entries ---

    def _read_entries(self) -> None:
        if "MESSAGE" in self.found:
            which = self.found["MESSAGE"].which
            self.regular[which] &= ~self._compacted()[self.frames.conversation[which]]
        carrying = np.isin(self.code, _PAYLOAD)
        if "messages" in self.tables:
            self.regular[carrying] = False
        which = np.flatnonzero(self.regular & carrying)
        entries = entry_columns.read(self.frames.octets, self.after[which], self.frames.end[which], self.limits)
        self._leave_out_news(which, entries)
        if {"batches", "findings"} & self.tables:
            entry_columns.verify(self.frames.buf, entries, self.limits)
        self.regular[which] = entries.ok
        self.entries = DecodedEntries(which, entries)
        self._agree()

    def _leave_out_news(self, which: Ints, entries: EntryColumns) -> None:
        """The first encrypted entry of a producer or consumer is a finding."""
        some = np.flatnonzero(entries.encrypted & entries.ok)
        if not len(some):
            return
        ids = np.zeros(len(self.code), np.int64)
        for name, field in (("SEND", "producer_id"), ("MESSAGE", "consumer_id")):
            if name in self.found:
                ids[self.found[name].which] = self.found[name].messages.number(field)
        at = which[some]
        columns = self.frames.conversation[at].tolist(), self.code[at].tolist(), unsigned(ids[at])
        known: set[tuple[int, int, int]] = set()
        for i, who in zip(some.tolist(), zip(*columns, strict=True), strict=True):
            if who not in known and who[1:] not in self.conversations[who[0]].entries.encrypted:
                entries.ok[i] = False
            known.add(who)

    def _compacted(self) -> Bools:
        """The conversations in which a consumer may read a compacted topic."""
        compacted = np.array([c.state.names.reads_compacted for c in self.conversations])
        unread = np.flatnonzero((self.code == commands.SUBSCRIBE) & ~self.read)
        compacted[self.frames.conversation[unread]] = True
        if "SUBSCRIBE" in self.found:
            _, which, messages, _ = self.found["SUBSCRIBE"]
            compacted[self.frames.conversation[which[messages.number("read_compacted") != 0]]] = True
        return compacted

    # --- in order ---

    def _in_order(self) -> None:
        """Regular frames change what their connections know, the others go to them: each in its place.

        Epochs begin with the frames that may change what ids stand for.
        """
        frames, regular, subjects = self.frames, self.regular, self.subjects
        begins = np.diff(frames.conversation, prepend=NONE) != 0
        naming = begins | ~regular | np.isin(self.code, _NAMING)
        epoch = np.cumsum(naming) - 1
        subjects.name_topics(self.found, regular, frames.buf)
        subjects.find_endpoints(self.found, regular, epoch)
        pending = dict(changes(self))
        events = ConsumerEvents(self)
        every = np.arange(naming.sum() + 1)
        groups, parts = np.searchsorted(subjects.epochs, every), np.searchsorted(epoch[events.which], every)
        looking = np.flatnonzero(naming)[np.diff(groups) > 0]
        irregular = np.flatnonzero(~regular)
        stops = distinct(np.concatenate((irregular, looking, np.fromiter(pending, np.int64, len(pending)))))
        at, last = epoch[stops], epoch[stops] + naming[stops]
        columns = (stops, frames.conversation[stops], regular[stops], groups[at], groups[last], parts[at], parts[last])
        each = frames.each(irregular)
        for i, t, plain, group, end, first, stop in zip(*(column.tolist() for column in columns), strict=True):
            conversation = self.conversations[t]
            if not plain:
                conversation.on_frame(next(each))
            elif i in pending:
                pending[i](conversation)
            if group < end:
                subjects.look_up(group, end, conversation.state.names)
                if first < stop and conversation.diagnostics is not None:
                    events.take(first, stop, conversation.diagnostics)
        subjects.settle()
        self._count()

    def _count(self) -> None:
        """Note what the frames leave with their connections, beside their changes."""
        frames = self.frames
        requests = np.flatnonzero(frames.client)
        newest = requests[np.diff(frames.conversation[requests], append=NONE) != 0]
        facts = frames.facts(newest)
        ends = (facts.offset + facts.size).tolist()
        for t, end in zip(frames.conversation[newest].tolist(), ends, strict=True):
            self.conversations[t].client_end = end
        counts = np.bincount(frames.conversation[self.regular], minlength=len(self.conversations))
        for conversation, count in zip(self.conversations, counts.tolist(), strict=True):
            conversation.by_column += count
