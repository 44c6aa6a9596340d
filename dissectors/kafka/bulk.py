"""Many frames of many connections at once: headers, matching and rows by column.

`KafkaConversation` takes one frame after the other. Most exchanges need none of its care: the request and its answer
are whole, lie in the bytes at hand, and neither changes what the connection knows. Such exchanges are regular; they are
matched, decoded and told here without an object each. Every other frame goes, in its order, to its conversation:

    share fetches, snapshots       they are rare, and have sessions of their own
    errors, unknown APIs, tags     rows of their own, findings
    acks=0, no answer at hand      they wait, or do not
    a connection whose answers do not follow its requests one by one

What is regular is decided per frame by its bytes, so both ways give the same rows; a property test compares them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dissectors.inbox import INVALID, MORE
from dissectors.kafka import batches, lanes
from dissectors.kafka.conversation import METADATA_LOG, KafkaConversation
from dissectors.kafka.decode import (
    API_VERSIONS,
    CONTROLLED_SHUTDOWN,
    ENVELOPE,
    FETCH,
    FETCH_SNAPSHOT,
    JOIN_GROUP,
    OFFSET_COMMIT,
    PRODUCE,
    SASL_HANDSHAKE,
    SHARE_FETCH,
    Spoken,
    spoken,
)
from dissectors.kafka.frames import HEAD, HIGHEST_KEY, HIGHEST_VERSION
from dissectors.kafka.match import Call
from dissectors.kafka.sessions import Session, kept_waiting
from dissectors.kafka.skim import Skim, Topic
from dissectors.limits import KIB
from dissectors.sink import Coded, Masked
from dissectors.stretch import Bools, Frames, Ints, Measure, Octets, cut, integers

_RARE = frozenset({SHARE_FETCH, FETCH_SNAPSHOT, ENVELOPE})
_CARRIERS = frozenset({PRODUCE, FETCH})
_WATCHED = frozenset({OFFSET_COMMIT, JOIN_GROUP})  # somebody keeps count of them, for findings
_NONE = -1  # in a column: no value
_WORTH = 24  # fewer bodies of one message are as quick one by one
_ALL = slice(None)
_NO_TOPICS: list[str] = []
_MANY, _MUCH = 8, 64 * KIB  # fewer connections, or bytes of them, are as quick one by one


def advance(talks: Sequence[KafkaConversation]) -> None:
    """As Conversation.advance, for many."""
    if not talks or talks[0].sink.full or (len(talks) < _MANY and sum(talk.held for talk in talks) < _MUCH):
        for talk in talks:
            talk.advance()
        return
    plain = [talk for talk in talks if talk.plain]
    careful = [talk for talk in talks if not talk.plain] if len(plain) < len(talks) else []
    if plain:
        frames, odd = cut(plain, _measure(plain[0].options.limits.frame_bytes))
        if len(frames):
            _Exchanges(frames).decode()
        frames.release()
        careful += odd
    for talk in careful:
        talk.advance()


def _measure(limit: int) -> Measure:
    """frames.measure_request and measure_response, for many."""

    def measure(client: Bools, octets: Octets, start: Ints, stop: Ints) -> Ints:
        have, size = stop - start, integers(octets, start, 4)
        key, version, name = (integers(octets, start + at, 2) for at in (4, 6, 12))
        known = (key >= 0) & (key <= HIGHEST_KEY) & (version >= 0) & (version <= HIGHEST_VERSION)
        fits = (name >= -1) & (name <= size - 10) | (size < 10) | (key == CONTROLLED_SHUTDOWN) & (version == 0)
        short = (have < HEAD) & (have < size + 4)
        request = np.where(short, MORE, np.where(known & fits, size + 4, INVALID))
        sizes = np.where(
            (size <= limit) & (size >= np.where(client, 8, 4)), np.where(client, request, size + 4), INVALID
        )
        return np.where(have < 4, MORE, sizes)

    return measure


class _Exchanges:
    """The frames of one call of `advance`, on their way to rows. Every column has a value for each frame."""

    def __init__(self, frames: Frames[KafkaConversation]) -> None:
        self.frames = frames
        self.talks = frames.talks
        self.sink = self.talks[0].sink
        n, octets, start = len(frames), frames.octets, frames.start
        self.size = frames.end - start
        self.key, self.version = integers(octets, start + 4, 2), integers(octets, start + 6, 2)  # of requests
        self.correlation_id = integers(octets, start + np.where(frames.client, 8, 4), 4)
        self.name_size = integers(octets, start + 12, 2)  # of the client id; negative for null
        self.body = start + HEAD + np.maximum(self.name_size, 0)
        self.partner = np.full(n, _NONE)  # the answer of a request, the request of an answer
        self.regular = np.zeros(n, bool)
        self.silent = np.zeros(n, bool)  # a request that has no answer by protocol
        self.odd = np.array([bool(talk.tokens) or talk.raw_sasl for talk in self.talks])  # by conversation
        self.topics: list[Sequence[Topic]] = [()] * n
        self.partitions = np.zeros(n, np.int64)
        self.records = np.full(n, _NONE)
        self.payload = np.full(n, _NONE)
        self.throttle = np.full(n, _NONE)
        self.long_poll = np.zeros(n, bool)
        self.fetches: dict[int, Skim] = {}  # what regular fetches and their answers say
        self.newest: dict[int, int] = {}  # latest timestamp in the answer to a fetch, ms
        self.text = Text()
        self.client_ids: dict[int, bytes] = {}  # of requests that have one
        self.software: list[tuple[int, int, tuple[str | None, str | None]]] = []  # request, conversation, as told

    def decode(self) -> None:
        """Every frame: the regular exchanges here, the others by their conversations."""
        groups = self._requests()
        self._match()
        for said, asked in groups:
            self._answers(said, asked[self.regular[asked]])
        self._meet()
        self._in_order()
        asked = np.flatnonzero(self.regular & self.frames.client)
        if len(asked):
            self._note(asked)
            self._tell(asked)

    # --- what requests say ---

    def _requests(self) -> list[tuple[Spoken, Ints]]:
        """Decode the requests; those that may be regular, by API and version."""
        frames, talk = self.frames, self.talks[0]
        whole = (self.size >= HEAD) & (self.body <= frames.end)
        bare = (self.key == SASL_HANDSHAKE) & (self.version == 0)  # what follows it may have no header
        self.odd[frames.talk[frames.client & (~whole | bare)]] = True
        asked = np.flatnonzero(frames.client & ~self.odd[frames.talk])
        code = self.key[asked] << 16 | self.version[asked]
        groups = []
        for value in np.unique(code).tolist():
            said, which = spoken(value >> 16, value & 0xFFFF), asked[code == value]
            if not said.known or not said.has_client_id or said.key in _RARE:
                continue
            if said.key != PRODUCE and talk.watch is not None and (said.removed or said.key in _WATCHED):
                continue
            which, at = self._untagged(which, self.body[which], said.request_tags)
            self.regular[which] = True
            left = self._walk_requests(said, which, at)
            self._skim_requests(said, which[left], at[left])
            if said.key in _CARRIERS and talk.emit.looks:
                self.regular[which] = False
            groups.append((said, which))
        return groups

    def _untagged(self, which: Ints, at: Ints, flexible: bool) -> tuple[Ints, Ints]:
        """The frames whose header has no tagged fields, and where their bodies begin."""
        if not flexible:
            return which, at
        plain = (self.frames.octets[at] == 0) & (at < self.frames.end[which])
        return which[plain], at[plain] + 1

    def _walk(self, said: Spoken, kind: str, which: Ints, at: Ints) -> lanes.Found | None:
        """Decode messages of one API and version at once; None where they are better skimmed one by one."""
        many = len(which) >= _WORTH and said.key != FETCH
        plan = lanes.steps(f"{said.api}{kind}", said.version) if many else None
        return None if plan is None else lanes.walk(plan, self.frames.octets, at, self.frames.end[which])

    def _walk_requests(self, said: Spoken, which: Ints, at: Ints) -> Bools | slice:
        """Decode many at once; those that are left."""
        found = self._walk(said, "Request", which, at)
        if found is None:
            return _ALL
        for pair in found.names:
            found.ok[pair.lane] = False
        if found.sets:
            self._count_records(which, found)
        if "acks" in found.values:
            self.silent[which] = found.ok & (found.values["acks"] == 0)
            self.regular[which[self.silent[which]]] = False
        self._note_topics(which, found)
        if "clientSoftwareName" in found.texts:
            self._note_software(which, found)
        return ~found.ok

    def _count_records(self, which: Ints, found: lanes.Found) -> None:
        """Count the records of Produce requests; a lane with a set that is not simply one batch leaves."""
        records, payload = np.zeros(len(which), np.int64), np.zeros(len(which), np.int64)
        for lane, start, size in found.sets:
            count = batches.count_single(self.frames.octets, start, size)
            found.ok[lane[count < 0]] = False
            records[lane] += count
            payload[lane] += size
        some = found.ok & (payload > 0)
        self.records[which[some]], self.payload[which[some]] = records[some], payload[some]

    def _note_topics(self, which: Ints, found: lanes.Found) -> None:
        """Topics and partitions of the lanes that stay."""
        self.partitions[which] = found.partitions
        buf, text, topics = self.frames.buf, self.text, self.topics
        for group in found.topics:
            stay = found.ok[group.lane]
            columns = (which[group.lane[stay]], group.start[stay], group.size[stay], group.is_id[stay])
            for i, start, size, is_id in zip(*(column.tolist() for column in columns), strict=True):
                raw = buf[start : start + size]
                topic = raw if is_id else text[raw]
                topics[i] = [*topics[i], topic] if topics[i] else [topic]

    def _note_software(self, which: Ints, found: lanes.Found) -> None:
        text, buf = self.text, self.frames.buf
        texts = (*found.texts["clientSoftwareName"], *found.texts["clientSoftwareVersion"])
        columns = (column[found.ok].tolist() for column in (which, self.frames.talk[which], *texts))
        for i, t, name, n, version, v in zip(*columns, strict=True):
            said = (
                text[buf[name : name + n]] if n >= 0 else None,
                text[buf[version : version + v]] if v >= 0 else None,
            )
            self.software.append((i, t, said))

    def _skim_requests(self, said: Spoken, which: Ints, at: Ints) -> None:
        frames, buf, skim = self.frames, self.frames.buf, said.skim_request
        limit = self.talks[0].options.limits.decompressed_bytes
        talk, end = frames.talk[which].tolist(), frames.end[which].tolist()
        for i, t, start, stop in zip(which.tolist(), talk, at.tolist(), end, strict=True):
            told = skim(buf, start, stop)
            if said.key == PRODUCE:
                self.silent[i] = told.values["acks"] == 0
                self.odd[t] |= not told.whole
            if not told.whole or told.names or self.silent[i]:
                self.regular[i] = False
                continue
            if said.key == FETCH:
                self.fetches[i] = told
                continue
            self.topics[i] = told.topics
            self.partitions[i] = told.partitions
            if told.sets:
                self.payload[i] = sum(each.size for each in told.sets)
                self.records[i] = sum(batches.count(buf, r.start, r.size, stop, limit)[0] for r in told.sets)
            elif said.key == API_VERSIONS and told.values:
                said_name, said_version = told.values["clientSoftwareName"], told.values["clientSoftwareVersion"]
                self.software.append((i, t, (said_name, said_version)))

    # --- matching ---

    def _match(self) -> None:
        """Pair requests and answers, where the answers of a connection follow its requests one by one."""
        frames, each = self.frames, np.arange(len(self.talks))
        waiting = np.array([len(talk.waiting) for talk in self.talks])
        asked, answers = np.flatnonzero(frames.client & ~self.silent), np.flatnonzero(~frames.client)
        talk = frames.talk[answers]
        turn = np.arange(len(answers)) - np.searchsorted(talk, each)[talk] - waiting[talk]
        first, last = np.searchsorted(frames.talk[asked], each), np.searchsorted(frames.talk[asked], each, "right")
        there = (turn >= 0) & (first[talk] + turn < last[talk])
        request = np.append(asked, 0)[np.where(there, first[talk] + turn, len(asked))]
        fits = (request < answers) & (self.correlation_id[request] == self.correlation_id[answers])
        self.odd[talk[(turn >= 0) & ~(there & fits) | (self.size[answers] < 8)]] = True
        for i, t, before in zip(*(column[turn < 0].tolist() for column in (answers, talk, turn)), strict=True):
            waits = self.talks[t].waiting
            self.odd[t] |= waits.at(before + len(waits)) != self.correlation_id[i]
        self.regular &= ~self.odd[frames.talk]
        pair = there & ~self.odd[talk]
        self.partner[request[pair]], self.partner[answers[pair]] = answers[pair], request[pair]
        self.regular &= self.partner >= 0
        self.regular[answers[pair]] = self.regular[request[pair]]

    # --- what answers say ---

    def _answers(self, said: Spoken, asked: Ints) -> None:
        """Decode the answers to requests of one API and version."""
        frames = self.frames
        answers, at = self._untagged(self.partner[asked], frames.start[self.partner[asked]] + 8, said.response_tags)
        self.regular[self.partner[asked]] = False
        self.regular[answers] = True
        left = self._walk_answers(said, answers, at)
        self._skim_answers(said, answers[left], at[left])
        self.regular[asked] = self.regular[self.partner[asked]]

    def _walk_answers(self, said: Spoken, answers: Ints, at: Ints) -> Bools | slice:
        """Decode many at once; those that are left."""
        found = self._walk(said, "Response", answers, at)
        if found is None:
            return _ALL
        for lane, _, _ in found.sets:
            found.ok[lane] = False
        self._note_topics(answers, found)
        if found.throttle is not None:
            self.throttle[answers[found.ok]] = found.throttle[found.ok]
        self._note_names(answers, found)
        return ~found.ok

    def _note_names(self, answers: Ints, found: lanes.Found) -> None:
        """The connections learn the topic ids and names in their answers."""
        frames, buf, text = self.frames, self.frames.buf, self.text
        for group in found.names:
            stay = found.ok[group.lane]
            at = answers[group.lane[stay]]
            columns = (frames.talk[at], frames.first_ns[at], group.id_at[stay], group.start[stay], group.size[stay])
            for t, time, id_at, start, size in zip(*(column.tolist() for column in columns), strict=True):
                self.talks[t].emit.learn(((buf[id_at : id_at + 16], text[buf[start : start + size]]),), time)

    def _skim_answers(self, said: Spoken, answers: Ints, at: Ints) -> None:
        frames, buf, skim = self.frames, self.frames.buf, said.skim_response
        columns = (answers, frames.talk[answers], at, frames.end[answers], frames.first_ns[answers])
        for i, t, start, stop, time in zip(*(column.tolist() for column in columns), strict=True):
            told = skim(buf, start, stop)
            fetched = said.key == FETCH and all(each.topic not in METADATA_LOG for each in told.sets)
            if not told.whole or told.faults or (told.sets and not fetched):
                self.regular[i] = False
                continue
            if fetched:
                self._fetched(i, told, stop)
            else:
                self.topics[i] = told.topics
            self.partitions[i] = told.partitions
            if told.throttle_ms is not None:
                self.throttle[i] = told.throttle_ms
            if told.names:
                self.talks[t].emit.learn(told.names, time)

    def _fetched(self, i: int, told: Skim, stop: int) -> None:
        """Count what the answer to a fetch brings."""
        limit = self.talks[0].options.limits.decompressed_bytes
        counts = [batches.count(self.frames.buf, each.start, each.size, stop, limit) for each in told.sets]
        asked = self.partner[i]
        self.records[asked] = sum(count for count, _ in counts)
        self.payload[asked] = sum(each.size for each in told.sets)
        self.newest[i] = max((newest for _, newest in counts), default=batches.NO_TIMESTAMP)
        self.fetches[i] = told

    # --- in order ---

    def _in_order(self) -> None:
        """Fetches change the sessions of their connections, in order with the frames that are not regular."""
        calls: dict[int, Call] = {}
        sessions: dict[int, Session | None] = {}
        cold = ~self.regular
        each = self.frames.each(np.flatnonzero(cold))
        cold[list(self.fetches)] = True
        which = np.flatnonzero(cold)
        columns = (which, self.frames.talk[which], self.partner[which], self.regular[which])
        for i, t, partner, regular in zip(*(column.tolist() for column in columns), strict=True):
            talk = self.talks[t]
            if regular and i < partner:
                sessions[i] = self._ask(i, talk)
                continue
            if regular:
                self._answer(i, partner, talk, sessions.pop(partner))
                continue
            frame = next(each)
            if partner < 0:
                talk.on_frame(frame)
            elif i < partner:
                calls[i] = talk.ask(frame)
            else:
                talk.answer(frame, calls.pop(partner))
        self._learn_software()

    def _ask(self, i: int, talk: KafkaConversation) -> Session | None:
        """A fetch: what it fetches, by its session."""
        told = self.fetches[i]
        session = talk.sessions.request(told)
        said = told if session is None else session
        self.topics[i], self.partitions[i] = said.topics, said.partitions
        return session

    def _answer(self, i: int, asked: int, talk: KafkaConversation, session: Session | None) -> None:
        """The answer to a fetch."""
        told, values = self.fetches[i], self.fetches[asked].values
        talk.sessions.answer(values, session, told.values.get("sessionId"), False)
        if session is None:
            self.topics[i] = told.topics
        if not told.throttle_ms:
            asked_ns, answered_ns = int(self.frames.last_ns[asked]), int(self.frames.first_ns[i])
            self.long_poll[asked] = kept_waiting(values, asked_ns, answered_ns, self.payload[asked], self.newest[i])

    def _learn_software(self) -> None:
        """Who the clients say they are: the last that each said."""
        told = np.flatnonzero(~self.regular & self.frames.client & (self.key == API_VERSIONS))
        last = dict(zip(self.frames.talk[told].tolist(), told.tolist(), strict=True))
        for i, t, software in sorted(self.software):
            if i > last.get(t, _NONE) and not self.odd[t]:
                self.talks[t].software = software

    # --- rows ---

    def _meet(self) -> None:
        """The connections take note of the client ids in their requests, in order."""
        frames, buf = self.frames, self.frames.buf
        asked = np.flatnonzero(frames.client & ~self.odd[frames.talk] & (self.name_size >= 0))
        starts, ends = (frames.start[asked] + HEAD).tolist(), self.body[asked].tolist()
        names = [buf[a:b] for a, b in zip(starts, ends, strict=True)]
        for t, name in dict.fromkeys(zip(frames.talk[asked].tolist(), names, strict=True)):
            self.talks[t].meet(name)
        self.client_ids = dict(zip(asked.tolist(), names, strict=True))

    def _note(self, asked: Ints) -> None:
        """What the connections remember of their regular requests."""
        frames = self.frames
        key, version, size = self.key[asked].tolist(), self.version[asked].tolist(), self.size[asked].tolist()
        talk = frames.talk[asked].tolist()
        known = {(k, v): spoken(k, v) for k, v in set(zip(key, version, strict=True))}
        for (t, k, v, n), count in Counter(zip(talk, key, version, size, strict=True)).items():
            self.talks[t].spoke(known[k, v], n, count)
        last = np.flatnonzero(np.diff(frames.talk[asked], append=-1))
        for t, i in zip(frames.talk[asked][last].tolist(), self.correlation_id[asked][last].tolist(), strict=True):
            self.talks[t].last_id, self.talks[t].answered = i, True

    def _tell(self, asked: Ints) -> None:
        """The rows of regular exchanges."""
        if not self.talks[0].emit.wants_exchanges:
            return
        frames, answers = self.frames, self.partner[asked]
        first, last = frames.first_ns[asked], frames.last_ns[asked]
        codes, api = np.unique(self.key[asked], return_inverse=True)
        text, names = self.text, self.client_ids
        said = [(self.topics[i], self.topics[k]) for i, k in zip(asked.tolist(), answers.tolist(), strict=True)]
        topics = [
            self.talks[t].emit.topics(*pair) if pair[0] or pair[1] else _NO_TOPICS
            for t, pair in zip(frames.talk[asked].tolist(), said, strict=True)
        ]
        partitions = self.partitions[asked]
        self.sink.extend(
            "exchanges",
            len(asked),
            conn=Coded([talk.conn for talk in self.talks], frames.talk[asked]),
            kind="call",
            api=Coded([spoken(code, 0).api for code in codes.tolist()], api),
            api_code=self.key[asked],
            version=self.version[asked],
            correlation_id=self.correlation_id[asked],
            client_id=[text[names[i]] if i in names else None for i in asked.tolist()],
            time=first,
            request_ns=last - first,
            wait_ns=frames.first_ns[answers] - last,
            response_ns=frames.last_ns[answers] - frames.first_ns[answers],
            total_ns=frames.last_ns[answers] - first,
            request_bytes=self.size[asked],
            response_bytes=self.size[answers],
            status="ok",
            error_count=0,
            topics=topics,
            partitions=np.where(partitions, partitions, self.partitions[answers]),
            records=_known(self.records[asked]),
            payload_bytes=_known(self.payload[asked]),
            long_poll=self.long_poll[asked],
            throttle_ms=_known(self.throttle[answers]),
            retransmitted=frames.resent[asked] | frames.resent[answers],
            complete=True,
            request_place=frames.place[asked],
            response_place=frames.place[answers],
        )


class Text(dict[bytes, str]):
    """Bytes as text, each decoded once."""

    def __missing__(self, raw: bytes) -> str:
        text = self[raw] = raw.decode("utf-8", "backslashreplace")
        return text


def _known(column: Ints) -> Masked:
    return Masked(column, column == _NONE)
