"""A TLS connection: records in, plaintext out, as far as the key log goes.

                 plain            handshake keys        application keys        next application keys
    TLS 1.2      hellos … CCS -------------------------> Finished, data
    TLS 1.3      hello ---------> … Finished -----------> data … KeyUpdate -----> data …
                      `-- early keys (0-RTT) --^

Every direction walks this line by itself. Two things tie them: nothing can be opened before both hellos are known, and
early data counts only once the server has accepted it; records that wait for this stay in their reader.

Provenance. AEAD ciphers keep the length, so each plaintext byte lies where its ciphertext byte lay: it has the packet
and time of that byte, the first byte of a record those of the record's first byte, the last those of the record's last
(nobody could read it before the tag was there). The order of all is that of the record's last byte: the record became
complete then.

Holes. A hole inside one record costs this record. After a longer one the reader offers places where a record might
start; one whose tag verifies under a sequence number that the hole leaves room for is the next record. The sequence
number says how many records are missing, so the plaintext `Gap` has the exact length unless the lost records were
padded or no application data; then it is an estimate, and the decoder behind must find the frames again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from dissectors.tcp.chunk import CLIENT, Chunk, Gap, Resent
from dissectors.tls import hello, keylog, keys
from dissectors.tls.hello import TLS12, TLS13
from dissectors.tls.keylog import KeyLog
from dissectors.tls.keys import Keys
from dissectors.tls.record import (
    APPLICATION_DATA,
    BROKEN,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    MAX_FRAGMENT,
    MIN_PROTECTED,
    Pieces,
    Record,
    RecordReader,
)
from dissectors.tls.suites import SUITES, Suite

Event = tuple[int, Chunk | Gap | Resent]  # direction, what

MAX_WAITING = 4 << 20  # bytes of a direction that wait for the other's hello; a hello comes within a few packets
MAX_MESSAGE = 1 << 18  # of a handshake message: certificate chains take some ten kilobytes
MAX_FAILURES = 8  # records in a row that do not verify: these are not the keys
MAX_SEQUENCES = 4096  # sequence numbers tried for one record after a hole
SEARCH_BYTES = 1 << 28  # ciphertext that a connection may cost in trials, in all
HISTORY = 256  # records whose place in the plaintext is remembered for retransmissions

# handshake messages that matter here
CLIENT_HELLO, SERVER_HELLO, NEW_SESSION_TICKET, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS = 1, 2, 4, 5, 8
FINISHED, KEY_UPDATE = 20, 24

PLAIN, EARLY, HANDSHAKE_EPOCH, APPLICATION = range(4)


class Epoch(NamedTuple):
    """What protects the records of a direction."""

    stage: int
    keys: Keys | None = None
    secret: bytes = b""  # TLS 1.3: the traffic secret behind the keys


class TlsSide:
    """One direction."""

    def __init__(self) -> None:
        self.reader = RecordReader()
        self.epoch = Epoch(PLAIN)
        self.sequence = 0
        self.messages: bytearray | None = bytearray()  # handshake bytes not parsed; None once some were lost
        self.offset = 0  # plaintext bytes so far, holes included
        self.lost_at = -1  # stream offset from which on records are lost
        self.gap: Gap | None = None  # the hole that lost them
        self.opened = False  # a record has been opened
        self.failures = 0
        self.dead = False  # nothing more will be read from this direction
        self.captured = 0  # bytes received
        self.plain = 0  # plaintext bytes made of them
        self.history: deque[tuple[int, int, int, int]] = deque(
            maxlen=HISTORY
        )  # record start, end; plaintext start, end
        self.resent: list[Resent] = []  # of bytes not decrypted yet
        self.out: list[Chunk | Gap | Resent] = []


class TlsLayer:
    """One connection under TLS.

    Feed it what TCP delivers, in any interleaving of the directions; every call returns the events that became
    possible, for either direction: (direction, Chunk | Gap | Resent) in plaintext stream offsets, which count from 0.
    """

    def __init__(self, log: KeyLog | None = None) -> None:
        self.version: str | None = None
        """`TLS 1.2`, `TLS 1.3` …; known once the server has answered."""
        self.sni: str | None = None
        """Server name that the client asked for."""
        self.alpn: str | None = None
        """Application protocol agreed on; with TLS 1.3 only where the handshake can be decrypted."""
        self.cipher: str | None = None
        """Cipher suite, by its registered name."""
        self.client = CLIENT
        """The direction that sent the ClientHello, whatever TCP took for the client."""
        self.decrypting = False
        """A record has been opened."""
        self.problem: str | None = None
        """Why there is no plaintext, or not all of it; one sentence."""

        self._log = log
        self._sides = (TlsSide(), TlsSide())
        self._hello: hello.ClientHello | None = None
        self._answer: hello.ServerHello | None = None
        self._suite: Suite | None = None
        self._master: bytes | None = None
        self._early_accepted: bool | None = None
        self._budget = SEARCH_BYTES

    # --- what the engine calls ---

    def receive(self, direction: int, event: Chunk | Gap) -> list[Event]:
        """Take bytes or a hole of one direction."""
        side = self._sides[direction]
        if isinstance(event, Chunk):
            side.captured += len(event.data)
        if not side.dead:
            side.reader.put(event)
            self._advance()
        return self._collect()

    def note_resent(self, direction: int, resent: Resent) -> list[Event]:
        """Bytes were sent again: report it in plaintext offsets, now or when their records are opened."""
        side = self._sides[direction]
        for start, end, plain_start, plain_end in side.history:
            if resent.start < end and resent.end > start:
                side.out.append(Resent(plain_start, plain_end, resent.order))
        if not side.dead and (not side.history or resent.end > side.history[-1][1]):
            side.resent.append(resent)
        return self._collect()

    def close(self) -> list[Event]:
        """Nothing more will come."""
        for side in self._sides:
            side.reader.final = True
        self._advance()
        for side in self._sides:
            if side.lost_at >= 0 and side.gap and side.epoch.stage == APPLICATION:
                self._hole(side, side.gap, side.gap.length)  # nothing was found after it
            side.dead = True
        return self._collect()

    @property
    def held(self) -> int:
        """Bytes kept for records and handshake messages that are not whole yet."""
        return sum(side.reader.held + len(side.messages or b"") for side in self._sides)

    def shed(self) -> None:
        """Give up: too much memory is held."""
        self._give_up("Its records were given up: more waited than the limit `memory_bytes` allows")

    def captured(self, direction: int) -> int:
        """Ciphertext bytes received."""
        return self._sides[direction].captured

    def decrypted(self, direction: int) -> int:
        """Plaintext bytes made of them."""
        return self._sides[direction].plain

    # --- the pump ---

    def _advance(self) -> None:
        """Handle whatever can be handled; each direction may release the other."""
        moved = True
        while moved:
            moved = False
            for direction, side in enumerate(self._sides):
                while not side.dead and self._step(direction, side):
                    moved = True

    def _step(self, direction: int, side: TlsSide) -> bool:
        item = side.reader.peek()
        if item is None:
            return False
        if self._waits(direction, item):
            if side.reader.held > MAX_WAITING:
                self._give_up("The TLS handshake was not captured")
            return side.dead
        if side.dead:
            return False
        if isinstance(item, Record) and side.lost_at < 0:
            pieces = side.reader.pieces(item)
            side.reader.pop()
            self._record(direction, side, item, pieces)
        elif isinstance(item, Record):
            self._candidate(direction, side, item)
        else:
            side.reader.pop()
            self._lose(side, item)
        return True

    def _waits(self, direction: int, item: Record | Gap) -> bool:
        """Whether this must wait for what the other direction says."""
        other = self._sides[1 - direction]
        handshake = isinstance(item, Record) and item.type == HANDSHAKE and item.whole
        if self._hello is None:
            first = item.data[5:6] if handshake and isinstance(item, Record) else b""
            side = self._sides[direction]
            if first == bytes([CLIENT_HELLO]) or (handshake and side.messages):
                self.client = direction
                return False
            if first != bytes([SERVER_HELLO]):
                self._give_up("The TLS handshake was not captured")
            return not side.dead and not other.dead
        if self._answer is None:
            return direction == self.client and not handshake and not other.dead
        early = direction == self.client and self._hello.early_data and self._early_accepted is None
        return early and not handshake and not other.dead

    def _collect(self) -> list[Event]:
        """What the directions have to report; chunks that follow each other become one."""
        events: list[Event] = []
        for direction, side in enumerate(self._sides):
            run: list[Chunk] = []
            for event in side.out:
                if isinstance(event, Chunk):
                    run.append(event)
                    continue
                if run and isinstance(event, Gap):
                    events.append((direction, _joined(run)))
                    run = []
                events.append((direction, event))
            if run:
                events.append((direction, _joined(run)))
            side.out.clear()
        return events

    def _give_up(self, problem: str) -> None:
        """No plaintext from here on, in either direction."""
        self.problem = self.problem or problem
        for side in self._sides:
            self._kill(side)

    def _kill(self, side: TlsSide) -> None:
        side.dead = True
        side.messages = None
        side.reader = RecordReader()
        side.resent.clear()

    # --- records ---

    def _record(self, direction: int, side: TlsSide, record: Record, pieces: Pieces) -> None:
        keys_ = side.epoch.keys
        tls13 = self._tls13()
        if record.type == CHANGE_CIPHER_SPEC:
            if self._answer and not tls13:
                self._enter(side, self._epoch12(direction))
            return
        if keys_ is None:
            if record.type == HANDSHAKE:
                self._plain_handshake(direction, side, record)
            return
        if tls13 and record.type != APPLICATION_DATA:
            return  # hellos repeated after a retry, and alerts before the keys changed
        plain = keys_.open(side.sequence, record.data) if record.whole else None
        if plain is None:
            self._unopened(direction, side, record, pieces)
            return
        side.sequence += 1
        self._content(direction, side, record, plain, pieces)

    def _content(self, direction: int, side: TlsSide, record: Record, plain: bytes, pieces: Pieces) -> None:
        """An opened record."""
        side.failures = 0
        side.opened = self.decrypting = True
        kind = record.type
        if self._tls13():
            plain = plain.rstrip(b"\0")  # padding
            if not plain:
                return
            kind, plain = plain[-1], plain[:-1]
        if kind == HANDSHAKE:
            self._handshake(direction, side, plain)
        elif kind == APPLICATION_DATA and plain:
            assert side.epoch.keys is not None
            self._emit(side, record, plain, pieces, side.epoch.keys.first_byte)

    def _emit(self, side: TlsSide, record: Record, plain: bytes, pieces: Pieces, first: int) -> None:
        """Plaintext with the marks of its ciphertext."""
        begin, end = side.offset, side.offset + len(plain)
        shift = begin - (record.offset + first)
        order = pieces.orders[-1]
        starts, packet_refs, times = [begin], [pieces.packet_refs[0]], [pieces.times[0]]
        last = end - 1
        for start, packet_ref, time in zip(pieces.starts[1:], pieces.packet_refs[1:], pieces.times[1:], strict=True):
            at = min(max(start + shift, begin + 1), last)
            if at > starts[-1]:
                starts.append(at)
                packet_refs.append(packet_ref)
                times.append(time)
            elif at > begin:  # a second segment within the header, or within the tag
                packet_refs[-1], times[-1] = packet_ref, time
        side.out.append(Chunk(begin, plain, starts, [order] * len(starts), packet_refs, times))
        side.offset = end
        side.plain += len(plain)
        side.history.append((record.offset, record.end, begin, end))
        for resent in side.resent:
            if resent.start < record.end and resent.end > record.offset:
                side.out.append(Resent(begin, end, resent.order))
        side.resent = [resent for resent in side.resent if resent.end > record.end]

    def _unopened(self, direction: int, side: TlsSide, record: Record, pieces: Pieces) -> None:
        """A record that does not verify, or that is not all there."""
        if record.whole:
            refused = side.epoch.stage in (EARLY, HANDSHAKE_EPOCH) and side.sequence == 0
            if self._try(direction, side, record, pieces, 0, MAX_FAILURES):
                return
            if refused and direction == self.client and self._hello and self._hello.early_data:
                return  # early data that the server refused, or whose secret is not in the log
            side.failures += 1
            if side.failures > MAX_FAILURES:
                self.problem = self.problem or "The records do not verify under the secrets of the key log"
                self._kill(side)
                return
        if not side.opened:
            return  # handshake records whose secret is not in the log, before the application's
        side.sequence += 1
        side.messages = None
        assert side.epoch.keys is not None
        if side.epoch.stage == APPLICATION and record.type == APPLICATION_DATA:
            reason = BROKEN if record.whole else "not captured"
            lost = len(record.data) - side.epoch.keys.overhead
            at = Gap(record.offset, 0, reason, pieces.orders[-1], pieces.packet_refs[0], pieces.times[0])
            self._hole(side, at, lost)

    # --- holes ---

    def _lose(self, side: TlsSide, item: Gap) -> None:
        """The record boundary is lost."""
        if self._hello is None or self._answer is None or not self._can_open():
            self._give_up("The TLS handshake was not captured whole")
            return
        if side.lost_at < 0:
            side.lost_at = item.offset
            side.gap = item
        elif side.gap:
            side.gap = side.gap._replace(length=item.offset + item.length - side.lost_at)
        side.messages = None

    def _candidate(self, direction: int, side: TlsSide, record: Record) -> None:
        """A place where the next record might start."""
        missing = record.offset - side.lost_at
        low = -(-missing // (MAX_FRAGMENT + 5))
        high = min(missing // MIN_PROTECTED, low + MAX_SEQUENCES)
        pieces = side.reader.pieces(record)
        if not record.whole or not self._try(direction, side, record, pieces, low, high):
            side.reader.skip()
            return
        side.reader.found()

    def _try(self, direction: int, side: TlsSide, record: Record, pieces: Pieces, low: int, high: int) -> bool:
        """Open a record under the keys and sequence numbers that it may have after `low` to `high` lost records."""
        for epoch, sequence in self._guesses(direction, side, record, low, high):
            if self._budget < 0:
                return False
            self._budget -= len(record.data)
            assert epoch.keys is not None
            plain = epoch.keys.open(sequence, record.data)
            if plain is None:
                continue
            lost = sequence - (side.sequence if epoch is side.epoch else 0)
            if epoch is not side.epoch:
                self._enter(side, epoch)
            if side.gap and lost > 0:
                missing = record.offset - side.lost_at
                self._hole(side, side.gap, missing - lost * epoch.keys.overhead)
            side.lost_at, side.gap = -1, None
            side.messages = bytearray()
            side.sequence = sequence + 1
            self._content(direction, side, record, plain, pieces)
            return True
        return False

    def _guesses(
        self, direction: int, side: TlsSide, record: Record, low: int, high: int
    ) -> Iterator[tuple[Epoch, int]]:
        """Keys and sequence numbers, the likeliest first."""
        if side.epoch.keys:
            for lost in range(low, high + 1):
                yield side.epoch, side.sequence + lost
        following = self._following(direction, side.epoch)
        while following and following.keys:
            for sequence in range(high + 1):
                yield following, sequence
            following = self._following(direction, following) if following.stage != APPLICATION else None

    def _hole(self, side: TlsSide, gap: Gap, length: int) -> None:
        """Plaintext that is missing."""
        if length > 0:
            side.out.append(Gap(side.offset, length, gap.reason, gap.order, gap.packet_ref, gap.time))
            side.offset += length

    # --- handshake ---

    def _plain_handshake(self, direction: int, side: TlsSide, record: Record) -> None:
        if record.whole:
            self._handshake(direction, side, record.data[5:])
        elif self._answer is None:
            self._give_up("The TLS handshake was not captured whole")
        else:
            side.messages = None

    def _handshake(self, direction: int, side: TlsSide, fragment: bytes) -> None:
        """Handshake bytes: cut messages (type, 3 bytes of length, body) and act on them."""
        if side.messages is None:
            return
        side.messages += fragment
        while side.messages is not None and len(side.messages) >= 4:
            size = 4 + int.from_bytes(side.messages[1:4], "big")
            if size > MAX_MESSAGE:
                side.messages = None
                return
            if len(side.messages) < size:
                return
            kind, body = side.messages[0], bytes(side.messages[4:size])
            del side.messages[:size]
            try:
                self._message(direction, side, kind, body)
            except ValueError as error:
                self._give_up(f"Malformed TLS handshake: {error}")
                return

    def _message(self, direction: int, side: TlsSide, kind: int, body: bytes) -> None:
        from_client = direction == self.client
        if kind == CLIENT_HELLO and from_client:
            self._client_hello(hello.client_hello(body))
        elif kind == SERVER_HELLO and not from_client and self._hello:
            self._server_hello(hello.server_hello(body))
        elif kind == NEW_SESSION_TICKET and side.epoch.stage == PLAIN and self._log and self._master:
            self._log.remember(hello.session_ticket(body), self._master)
        elif kind == ENCRYPTED_EXTENSIONS and side.epoch.stage == HANDSHAKE_EPOCH:
            self.alpn, self._early_accepted = hello.encrypted_extensions(body)
            if self._early_accepted:
                self._begin_early()
        elif kind == END_OF_EARLY_DATA and side.epoch.stage == EARLY:
            self._enter(side, self._epoch13(direction, HANDSHAKE_EPOCH))
        elif kind == FINISHED and side.epoch.stage == HANDSHAKE_EPOCH:
            self._enter(side, self._epoch13(direction, APPLICATION))
        elif kind == KEY_UPDATE and side.epoch.stage == APPLICATION and self._tls13():
            self._enter(side, self._following(direction, side.epoch))

    def _client_hello(self, message: hello.ClientHello) -> None:
        if self._hello is None:
            self.sni = message.sni
        self._hello = message
        if self._answer and not self._answer.retry:
            self._answer = None  # TLS 1.2 renegotiates, inside the old keys

    def _server_hello(self, message: hello.ServerHello) -> None:
        """Both hellos are known: find the secrets."""
        self.version = hello.VERSIONS.get(message.version, f"0x{message.version:04x}")
        if message.retry:
            self._early_accepted = False
            return
        self._answer = message
        self._suite = SUITES.get(message.suite)
        self.cipher = self._suite.name if self._suite else f"0x{message.suite:04x}"
        self.alpn = message.alpn or self.alpn
        if self._log is None:
            self._give_up("No key log was given")
        elif message.version not in (TLS12, TLS13):
            self._give_up(f"{self.version} is not decrypted")
        elif self._suite is None:
            self._give_up(f"Cipher suite {self.cipher} is not decrypted: only AEAD suites are")
        elif message.version == TLS13:
            self._begin13()
        else:
            self._begin12()

    # --- keys ---

    def _tls13(self) -> bool:
        return self._answer is not None and self._answer.version == TLS13

    def _can_open(self) -> bool:
        return self._suite is not None and self._log is not None

    def _enter(self, side: TlsSide, epoch: Epoch | None) -> None:
        """From the next record on, a direction has these keys."""
        if epoch is None or epoch.keys is None:
            self._give_up("The key log lacks a secret of this session")
            return
        side.epoch, side.sequence = epoch, 0
        side.messages = bytearray()

    def _begin12(self) -> None:
        assert self._log is not None
        assert self._hello is not None
        assert self._answer is not None
        session = self._answer.session_id
        self._master = self._log.get(keylog.MASTER, self._hello.random)
        if self._master is None and session and session == self._hello.session_id:  # the server resumes a session
            self._master = self._log.resumed(self._hello.ticket or session)
        if self._master is None:
            self._give_up("The key log lacks the master secret of this session")
        elif session:
            self._log.remember(session, self._master)

    def _begin13(self) -> None:
        """The server's handshake keys come at once; the client's as well, unless early data comes first."""
        assert self._hello is not None
        for direction, side in enumerate(self._sides):
            stages = (HANDSHAKE_EPOCH, APPLICATION)
            epochs = (self._epoch13(direction, stage) for stage in stages)
            epoch = next((epoch for epoch in epochs if epoch), None)
            self._enter(side, epoch)
        if not self._hello.early_data:
            self._early_accepted = False

    def _begin_early(self) -> None:
        """The server accepted early data: the client's first records are under its keys."""
        assert self._log is not None
        assert self._hello is not None
        secret = self._log.get(keylog.EARLY, self._hello.random)
        side = self._sides[self.client]
        if secret and self._suite and side.epoch.stage == HANDSHAKE_EPOCH and side.sequence == 0:
            self._enter(side, Epoch(EARLY, keys.keys13(self._suite, secret), secret))

    def _epoch12(self, direction: int) -> Epoch | None:
        if not (self._suite and self._master and self._hello and self._answer):
            return None
        pair = keys.keys12(self._suite, self._master, self._hello.random, self._answer.random)
        return Epoch(APPLICATION, pair[direction != self.client])

    def _epoch13(self, direction: int, stage: int) -> Epoch | None:
        assert self._log is not None
        assert self._hello is not None
        labels = keylog.HANDSHAKE if stage == HANDSHAKE_EPOCH else keylog.APPLICATION
        secret = self._log.get(labels[direction != self.client], self._hello.random)
        if secret is None or self._suite is None:
            return None
        return Epoch(stage, keys.keys13(self._suite, secret), secret)

    def _following(self, direction: int, epoch: Epoch) -> Epoch | None:
        """The keys that come after these."""
        if not self._tls13():
            return self._epoch12(direction) if epoch.stage == PLAIN else None
        if epoch.stage == APPLICATION:
            assert self._suite is not None
            secret = keys.next_secret(self._suite, epoch.secret)
            return Epoch(APPLICATION, keys.keys13(self._suite, secret), secret)
        return self._epoch13(direction, epoch.stage + 1)


def _joined(run: list[Chunk]) -> Chunk:
    """Chunks that follow each other, as one."""
    if len(run) == 1:
        return run[0]
    first = run[0]
    starts, orders, packet_refs, times = (list[int]() for _ in range(4))
    for chunk in run:
        starts += chunk.starts
        orders += chunk.orders
        packet_refs += chunk.packet_refs
        times += chunk.times
    return Chunk(first.offset, b"".join(chunk.data for chunk in run), starts, orders, packet_refs, times)
