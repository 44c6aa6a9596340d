"""Many frames of many connections at once: headers, matching, record batches and rows by column.

`KafkaConversation` takes one frame after the other. Most exchanges need none of its care: the request and its answer,
if it has one by protocol, are whole, lie in the bytes at hand, and neither changes what the connection knows. Such
exchanges are regular; they are matched, decoded and reported here without an object each. Every other frame goes, in
its order, to its conversation:

    share fetches, snapshots, joins  they are rare, and change what the connection knows
    errors, unknown APIs, tags       rows of their own, findings
    no answer at hand                they wait
    old formats, damaged batches     they are looked into message by message
    a connection whose answers do not follow its requests one by one

Of a connection of which only answers were captured the first go one by one too, the rest by orphan_columns.py.
What is regular is decided per frame by its bytes, so both ways give the same rows; a property test compares them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import itemgetter
from sys import intern

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.frame_columns import NONE, Frames, decode_together, distinct, integers
from dissectors.kafka import columnar, decode, orphan_columns
from dissectors.kafka.body_notes import BodyNotes, Topic
from dissectors.kafka.carried import METADATA_LOG
from dissectors.kafka.coded import GrowingColumns, runs
from dissectors.kafka.conversation import KafkaConversation
from dissectors.kafka.decode import ApiVersion, api_version
from dissectors.kafka.decoded_frames import KafkaFrames
from dissectors.kafka.diagnostics import INSPECTED, QUEUED_NS
from dissectors.kafka.fetches_in_order import FetchesInOrder
from dissectors.kafka.frames import HEAD, announced_columns, measure_columns
from dissectors.kafka.pending import KafkaRequest
from dissectors.kafka.plan import GROUP, plan
from dissectors.kafka.record_set_columns import RecordSetColumns
from dissectors.kafka.row_columns import report_exchanges
from dissectors.rows.exchange import queued

_RARE = frozenset({decode.SHARE_FETCH, decode.FETCH_SNAPSHOT, decode.ENVELOPE})
_WORTH = 96  # fewer bodies of one message are as quick one by one
_SOFTWARE = ("clientSoftwareName", "clientSoftwareVersion")


def advance(conversations: Sequence[KafkaConversation]) -> None:
    """As Conversation.advance, for many."""
    decode_together(conversations, lambda frames: KafkaExchanges(frames).decode(), measure_columns, announced_columns)


class KafkaExchanges(KafkaFrames):
    """How the frames of a step become rows."""

    def __init__(self, frames: Frames[KafkaConversation]) -> None:
        super().__init__(frames)
        self.name_size = integers(frames.octets, frames.start + 12, 2)  # of the client id; negative for null
        self.body = frames.start + HEAD + np.maximum(self.name_size, 0)
        self.alone = orphan_columns.only_answers(self)  # by conversation
        self.software: list[tuple[int, int, tuple[str | None, str | None]]] = []  # request, conversation
        self.before = self._answered_before()

    def _answered_before(self) -> Ints:
        """When the answer before each answer of its connection had come, ns; 0 where there was none."""
        frames = self.frames
        before = np.zeros(len(frames), np.int64)
        answers = np.flatnonzero(~frames.client)
        if len(answers):
            conversation = frames.conversation[answers]
            first = np.diff(conversation, prepend=-1) != 0
            before[answers[1:]] = frames.last_ns[answers[:-1]]
            before[answers[first]] = [self.conversations[t].answered_ns or 0 for t in conversation[first].tolist()]
        return before

    def decode(self) -> None:
        """Every frame: the regular exchanges here, the others by their conversations."""
        groups = self._requests()
        self._match()
        for api, requests in groups:
            self._answers(api, requests[self.regular[requests] & ~self.silent[requests]])
        carried = RecordSetColumns(self)
        self._note_client_ids()
        self._in_order(carried)
        requests = np.flatnonzero(self.regular & self.frames.client)
        if len(requests):
            self._note(requests)
            answers = self.partner[requests]
            waited = queued(self.frames.facts(requests), self.frames.facts(answers), self.before[answers])
            if self.diagnosing:
                self._diagnose(requests, waited.values)
                carried.diagnose()
            carried.report()
            report_exchanges(self, requests, waited)

    # --- what requests say ---

    def _requests(self) -> list[tuple[ApiVersion, Ints]]:
        """Decode the requests; those that may be regular, by API and version."""
        frames = self.frames
        whole = (self.size >= HEAD) & (self.body <= frames.end)
        bare = (self.key == decode.SASL_HANDSHAKE) & (self.version == 0)  # what follows it may have no header
        self.odd[frames.conversation[frames.client & (~whole | bare)]] = True
        requests = np.flatnonzero(frames.client & ~self.odd[frames.conversation])
        code = self.key[requests] << 16 | self.version[requests]
        groups = []
        for value in distinct(code).tolist():
            api, which = api_version(value >> 16, value & 0xFFFF), requests[code == value]
            if not api.known or not api.has_client_id or api.key in _RARE:
                continue
            if (self.diagnosing and api.key in INSPECTED) or self.sink.wants_body(api.name):
                continue
            which, at = self._untagged(which, self.body[which], api.request_tags)
            self.regular[which] = True
            left = self._walk_requests(api, which, at)
            self._note_requests(api, which[left], at[left])
            if api.key in (decode.PRODUCE, decode.FETCH) and self.report.wants_messages:
                self.regular[which] = False
            groups.append((api, which))
        return groups

    def _untagged(self, which: Ints, at: Ints, flexible: bool) -> tuple[Ints, Ints]:
        """The frames whose header has no tagged fields, and where their bodies begin."""
        if not flexible:
            return which, at
        plain = (self.frames.octets[at] == 0) & (at < self.frames.end[which])
        return which[plain], at[plain] + 1

    def _walk(self, api: ApiVersion, kind: str, which: Ints, at: Ints) -> columnar.ColumnNotes | None:
        """Decode messages of one API and version at once; None where they are better read one by one."""
        if len(which) < _WORTH:
            return None
        steps = plan(f"{api.name}{kind}", api.version).noting
        return columnar.walk(steps, self.frames.octets, self.texts, at, self.frames.end[which])

    def _walk_requests(self, api: ApiVersion, which: Ints, at: Ints) -> Bools:
        """Decode many at once; those that are left."""
        found = self._walk(api, "Request", which, at)
        if found is None:
            return np.ones(len(which), bool)
        for pair in found.names:
            found.ok[pair.row] = False
        if "acks" in found.values:
            self.silent[which] = found.ok & (found.values["acks"] == 0)
        if api.key == decode.FETCH:
            self.fetches.read[which] = found.ok
            self.fetches.keep(which, found)
            self._keep(which, found, self.fetches.topics)
        else:
            self._keep(which, found, self.topics)
        if GROUP in found.texts:
            start, size = (column[found.ok] for column in found.texts[GROUP])
            self.group[which[found.ok]] = self.texts.at(start, size)
        if _SOFTWARE[0] in found.texts:
            columns = [self.texts.at(*(column[found.ok] for column in found.texts[name])) for name in _SOFTWARE]
            for i, name, version in zip(
                which[found.ok].tolist(), *(column.tolist() for column in columns), strict=True
            ):
                self._note_software(i, self.texts.values[name], self.texts.values[version])
        return ~found.ok

    def _keep(self, which: Ints, found: columnar.ColumnNotes, named: GrowingColumns) -> None:
        """Topics, partitions and record sets of the rows that stay."""
        self.partitions[which] = found.partitions
        for topics in found.topics:
            stay = topics.at(found.ok[topics.row])
            named.extend(which[stay.row], stay.code)
        for sets in found.sets:
            ok = found.ok[sets.topic.row]
            topic = sets.topic.at(ok)
            self.sets.extend(which[topic.row], topic.code, sets.partition[ok], sets.start[ok], sets.size[ok])

    def _note_requests(self, api: ApiVersion, which: Ints, at: Ints) -> None:
        frames, buf = self.frames, self.frames.buf
        columns = (which, frames.conversation[which], at, frames.end[which])
        for i, t, start, stop in zip(*(column.tolist() for column in columns), strict=True):
            notes = api.note_request(buf, start, stop)
            if api.key == decode.PRODUCE:
                self.silent[i] = notes.values["acks"] == 0
                self.odd[t] |= not notes.whole
            if not notes.whole or notes.names:
                self.regular[i] = False
                continue
            self.group[i] = self.texts.code(notes.values.get(GROUP))
            if api.key == decode.FETCH:
                self.fetches.read[i] = True
            self._keep_one(i, notes, fetch=api.key == decode.FETCH)
            if api.key == decode.API_VERSIONS and _SOFTWARE[0] in notes.values:
                self._note_software(i, notes.values[_SOFTWARE[0]], notes.values[_SOFTWARE[1]])

    def _keep_one(self, i: int, notes: BodyNotes, *, fetch: bool) -> None:
        """Keep topics, partitions and record sets of one frame. fetch: whether it is a fetch, or the answer to one."""
        self.partitions[i] = notes.partitions
        named = self.fetches.topics if fetch else self.topics
        for topic in notes.topics:
            named.add(i, self.texts.code(topic))
        for each in notes.sets:
            self.sets.add(i, self.texts.code(each.topic), each.partition, each.start, each.size)
        if fetch:
            self.fetches.keep_one(i, notes)

    def _note_software(self, i: int, name: Topic | None, version: Topic | None) -> None:
        """A client says what software it is."""
        texts = None if name is None else intern(str(name)), None if version is None else intern(str(version))
        self.software.append((i, int(self.frames.conversation[i]), texts))

    # --- matching ---

    def _match(self) -> None:
        """Pair requests and answers, where the answers of a connection follow its requests one by one."""
        frames, each = self.frames, np.arange(len(self.conversations))
        waiting = np.array([len(conversation.waiting) for conversation in self.conversations])
        requests, answers = np.flatnonzero(frames.client & ~self.silent), np.flatnonzero(~frames.client)
        conversation = frames.conversation[answers]
        turn = np.arange(len(answers)) - np.searchsorted(conversation, each)[conversation] - waiting[conversation]
        first, last = (
            np.searchsorted(frames.conversation[requests], each),
            np.searchsorted(frames.conversation[requests], each, "right"),
        )
        there = (turn >= 0) & (first[conversation] + turn < last[conversation])
        request = np.append(requests, 0)[np.where(there, first[conversation] + turn, len(requests))]
        fits = (request < answers) & (self.correlation_id[request] == self.correlation_id[answers])
        self.odd[conversation[(turn >= 0) & ~(there & fits) | (self.size[answers] < 8)]] = True
        ids: dict[int, Iterator[int | None]] = {}  # by conversation: those that are expected
        for i, t in zip(*(column[turn < 0].tolist() for column in (answers, conversation)), strict=True):
            if t not in ids:
                ids[t] = self.conversations[t].waiting.in_order()
            self.odd[t] |= next(ids[t]) != self.correlation_id[i]
        self.regular &= ~self.odd[frames.conversation]
        pair = there & ~self.odd[conversation]
        self.partner[request[pair]], self.partner[answers[pair]] = answers[pair], request[pair]
        one_way = np.flatnonzero(self.silent & self.regular)
        self.partner[one_way] = one_way
        self.regular &= self.partner >= 0
        self.regular[answers[pair]] = self.regular[request[pair]]

    # --- what answers say ---

    def _answers(self, api: ApiVersion, requests: Ints) -> None:
        """Decode the answers to requests of one API and version."""
        frames = self.frames
        answers, at = self._untagged(
            self.partner[requests], frames.start[self.partner[requests]] + 8, api.response_tags
        )
        self.regular[self.partner[requests]] = False
        self.regular[answers] = True
        left = self._walk_answers(api, answers, at)
        self._note_answers(api, answers[left], at[left])
        self.regular[requests] = self.regular[self.partner[requests]]

    def _walk_answers(self, api: ApiVersion, answers: Ints, at: Ints) -> Bools:
        """Decode many at once; those that are left."""
        found = self._walk(api, "Response", answers, at)
        if found is None:
            return np.ones(len(answers), bool)
        if api.key == decode.FETCH:
            self._check_fetched(answers, found)
            self.fetches.keep(answers, found)
            self._keep(answers, found, self.fetches.topics)
        else:
            for sets in found.sets:
                found.ok[sets.topic.row] = False
            self._keep(answers, found, self.topics)
        if found.throttle is not None:
            self.throttle[answers[found.ok]] = found.throttle[found.ok]
        if api.key == decode.PRODUCE:
            for pairs in found.pairs:
                ok = found.ok[pairs.topic.row]
                topic = pairs.topic.at(ok)
                (offset,) = pairs.numbers
                self.bases.extend(answers[topic.row], topic.code, pairs.partition[ok], offset[ok])
        self._learn_names(answers, found)
        return ~found.ok

    def _check_fetched(self, answers: Ints, found: columnar.ColumnNotes) -> None:
        """Answers with aborted transactions that must be left out, and with the controllers' log, do not stay."""
        found.ok &= ~(found.beyond & self.fetches.committed_only(self.partner[answers]))
        log = [self.texts.code(topic) for topic in METADATA_LOG]
        for sets in found.sets:
            found.ok[sets.topic.row[np.isin(sets.topic.code, log)]] = False

    def _learn_names(self, answers: Ints, found: columnar.ColumnNotes) -> None:
        """The connections learn the topic ids and names in their answers."""
        frames, buf = self.frames, self.frames.buf
        for group in found.names:
            stay = found.ok[group.row]
            at = answers[group.row[stay]]
            names = self.texts.at(group.start[stay], group.size[stay])
            columns = (frames.conversation[at], frames.first_ns[at], group.id_at[stay], names)
            for t, time, id_at, code in zip(*(column.tolist() for column in columns), strict=True):
                name = str(self.texts.values[code])
                self.conversations[t].emit.names.learn(((buf[id_at : id_at + 16], name),), time)

    def _note_answers(self, api: ApiVersion, answers: Ints, at: Ints) -> None:
        frames, buf = self.frames, self.frames.buf
        columns = (answers, frames.conversation[answers], at, frames.end[answers], frames.first_ns[answers])
        for i, t, start, stop, time in zip(*(column.tolist() for column in columns), strict=True):
            notes = api.note_response(buf, start, stop)
            if not notes.whole or notes.faults or (notes.sets and not self._plainly_fetched(api, i, notes)):
                self.regular[i] = False
                continue
            self._keep_one(i, notes, fetch=api.key == decode.FETCH)
            if api.key == decode.PRODUCE:
                for topic, partition, offset in notes.pairs:
                    self.bases.add(i, self.texts.code(topic), partition, offset)
            if notes.throttle_ms is not None:
                self.throttle[i] = notes.throttle_ms
            if notes.names:
                self.conversations[t].emit.names.learn(notes.names, time)

    def _plainly_fetched(self, api: ApiVersion, i: int, notes: BodyNotes) -> bool:
        """Whether all of an answer to a fetch reaches the application, and only there."""
        if api.key != decode.FETCH or self.fetches.committed_only(self.partner[[i]]).any():
            return False
        return all(each.topic not in METADATA_LOG for each in notes.sets)

    # --- in order ---

    def _in_order(self, carried: RecordSetColumns) -> None:
        """Frames that are not regular, one by one, and the sessions of fetches as they change between them."""
        frames = self.frames
        pending: dict[int, KafkaRequest] = {}
        fetches = FetchesInOrder(self, carried)
        alone = self.alone[frames.conversation]
        self._answers_alone(np.flatnonzero(fetches.cold & alone))
        cold = fetches.cold & ~alone
        each = frames.each(np.flatnonzero(cold))
        cold[list(carried.in_order)] = True
        which = np.flatnonzero(cold)
        columns = (which, frames.conversation[which], self.partner[which], self.regular[which])
        for i, t, partner, regular in zip(*(column.tolist() for column in columns), strict=True):
            fetches.until(i)
            if regular:
                carried.diagnose_request(i)
                continue
            conversation, frame = self.conversations[t], next(each)
            if partner in (NONE, i):
                conversation.answered_ns = int(self.before[i]) or conversation.answered_ns
                conversation.on_frame(frame)
            elif i < partner:
                pending[i] = conversation.open_request(frame)
            else:
                conversation.answer(frame, pending.pop(partner), int(self.before[i]) or None)
        fetches.finish()
        self._learn_software()
        answers = np.flatnonzero(~frames.client)
        newest = answers[np.diff(frames.conversation[answers], append=-1) != 0]
        for t, ns in zip(frames.conversation[newest].tolist(), frames.last_ns[newest].tolist(), strict=True):
            self.conversations[t].answered_ns = ns

    def _answers_alone(self, answers: Ints) -> None:
        """Answers of connections without requests: the first are kept until more is known, the others reported."""
        frames, of = self.frames, self.frames.conversation[answers]
        conversations = [self.conversations[t] for t in of.tolist()]
        turn = np.arange(len(answers)) - np.searchsorted(of, of)
        first = np.flatnonzero(turn < [conversation.orphans.left for conversation in conversations])
        rest = np.ones(len(answers), bool)
        columns = (first, self.before[answers[first]])
        each = frames.each(answers[first])
        for n, before, frame in zip(*(column.tolist() for column in columns), each, strict=True):
            conversation = conversations[n]
            if conversation.orphans.has_room(frame.size):
                rest[n] = False
                conversation.answered_ns = before or conversation.answered_ns
                conversation.on_frame(frame)
        if np.count_nonzero(rest):
            orphan_columns.report(self, answers[rest])

    def _learn_software(self) -> None:
        """What software the clients are: the last that each of them said."""
        others = np.flatnonzero(~self.regular & self.frames.client & (self.key == decode.API_VERSIONS))
        last = dict(zip(self.frames.conversation[others].tolist(), others.tolist(), strict=True))
        for i, t, software in sorted(self.software, key=itemgetter(0)):
            if i > last.get(t, NONE) and not self.odd[t]:
                self.conversations[t].software = software

    # --- what the connections remember ---

    def _note_client_ids(self) -> None:
        """The connections take note of the client ids in their requests, in order."""
        frames = self.frames
        named = np.flatnonzero(frames.client & ~self.odd[frames.conversation] & (self.name_size >= 0))
        codes = self.client_id[named] = self.texts.at(frames.start[named] + HEAD, self.name_size[named])
        _, first = np.unique(frames.conversation[named] << 32 | codes, return_index=True)
        which = np.sort(named[first])
        columns = (frames.conversation[which], frames.start[which] + HEAD, self.body[which], frames.facts(which).offset)
        for t, start, end, offset in zip(*(column.tolist() for column in columns), strict=True):
            self.conversations[t].note_client_id(frames.buf[start:end], offset)

    def _note(self, requests: Ints) -> None:
        """What is remembered of regular requests: versions used, their lengths, the newest id."""
        frames = self.frames
        conversation, size = frames.conversation[requests], self.size[requests]
        versions, version = np.unique(self.key[requests] << 16 | self.version[requests], return_inverse=True)
        order = np.lexsort((size, version, conversation))
        columns = np.stack((conversation[order], version[order], size[order]))
        begins = np.flatnonzero(np.append(True, (np.diff(columns) != 0).any(axis=0)))
        apis = [api_version(value >> 16, value & 0xFFFF) for value in versions.tolist()]
        times = np.diff(begins, append=len(order))
        for t, v, n, count in zip(*columns[:, begins].tolist(), times.tolist(), strict=True):
            self.conversations[t].note_use(apis[v], n, count)
        last = np.flatnonzero(np.diff(conversation, append=-1))
        counts = np.diff(last, prepend=-1)
        answers = np.diff(np.cumsum(~self.silent[requests])[last], prepend=0)
        columns = np.stack((conversation[last], self.correlation_id[requests][last], counts, answers))
        for t, *noted in zip(*columns.tolist(), strict=True):
            self.conversations[t].note_columns(*noted)

    def _diagnose(self, requests: Ints, waited: Ints) -> None:
        """Diagnostics of the clients take note of removed APIs, of commits, and of requests that queued."""
        late = np.flatnonzero((waited >= QUEUED_NS) & (self.key[requests] != decode.FETCH))
        for i, ns in zip(requests[late].tolist(), waited[late].tolist(), strict=True):
            api = api_version(int(self.key[i]), int(self.version[i]))
            self.diagnostics(i).queued(self.frames.fact(i), api.name, ns)
        codes = distinct(self.key[requests] << 16 | self.version[requests])
        for api in (api_version(value >> 16, value & 0xFFFF) for value in codes.tolist()):
            if not api.removed and api.key != decode.OFFSET_COMMIT:
                continue
            which = requests[(self.key[requests] == api.key) & (self.version[requests] == api.version)]
            for run in runs(self.frames.conversation[which], self.group[which]):
                first, last = int(which[run[0]]), int(which[run[-1]])
                if api.removed:
                    self.diagnostics(first).removed(api, self.frames.fact(first), len(run))
                if api.key == decode.OFFSET_COMMIT:
                    group = self.texts.values[self.group[first]]
                    name = None if group is None else str(group)
                    self.diagnostics(first).committed(
                        name, self.frames.fact(first), int(self.frames.first_ns[last]), len(run)
                    )
