"""A TLS connection: records in, plaintext out, as far as the key log goes.

                 plain            handshake keys        application keys        next application keys
    TLS 1.2      hellos … CCS -------------------------> Finished, data
    TLS 1.3      hello ---------> … Finished -----------> data … KeyUpdate -----> data …
                      `-- early keys (0-RTT) --^

Every direction walks this line by itself. Two things tie them: nothing can be opened before both hellos are known, and
early data counts only once the server has accepted it; records that wait for this stay in their reader.

Holes. A hole inside one record costs this record. After a longer one the reader offers places where a record might
start; one whose tag verifies under a sequence number that the hole leaves room for is the next record. The sequence
number says how many records are missing, so the plaintext `Gap` has the exact length unless the lost records were
padded or no application data; then it is an estimate, and the decoder behind must find the frames again.

Where the keys are not known, records are read on, unopened, until the handshake has ended (`handshake.py`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.tcp.chunk import CLIENT, Chunk, Gap, Resent
from dissectors.tls import hello, schedule
from dissectors.tls.alerts import alert_in_clear
from dissectors.tls.handshake import HandshakeWatch
from dissectors.tls.keylog import KeyLog
from dissectors.tls.record import (
    ALERT,
    APPLICATION_DATA,
    BROKEN,
    CHANGE_CIPHER_SPEC,
    HANDSHAKE,
    MAX_FRAGMENT,
    MIN_PROTECTED,
    Pieces,
    Record,
)
from dissectors.tls.schedule import APPLICATION, EARLY, PLAIN, Epoch, KeySchedule
from dissectors.tls.side import TlsSide

Event = tuple[int, Chunk | Gap | Resent]  # direction, what

MAX_WAITING = 4 << 20  # bytes of a direction that wait for the other's hello; a hello comes within a few packets
MAX_FAILURES = 8  # records in a row that do not verify: these are not the keys
MAX_SEQUENCES = 4096  # sequence numbers tried for one record after a hole
SEARCH_BYTES = 1 << 28  # ciphertext that a connection may cost in trials, in all

# handshake messages that matter here
CLIENT_HELLO, SERVER_HELLO, NEW_SESSION_TICKET, END_OF_EARLY_DATA, ENCRYPTED_EXTENSIONS = 1, 2, 4, 5, 8
CERTIFICATE, FINISHED, KEY_UPDATE = 11, 20, 24


class Login(NamedTuple):
    """A certificate by which a client says who it is."""

    subject: str
    time: int  # of the first byte of its record, ns
    packet_ref: int


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
        self.client = CLIENT
        """The direction that sent the ClientHello, whatever TCP took for the client."""
        self.problem: str | None = None
        """Why there is no plaintext, or not all of it; one sentence."""

        self.login: Login | None = None
        """The first certificate that the client showed."""

        self.alert: tuple[int, str] | None = None
        """The first alert in clear: who sent it, and what it says."""

        self.handshake = HandshakeWatch()
        self._blind = False  # nothing will be opened: records are read for what the handshake shows
        self._sides = (TlsSide(), TlsSide())
        self._schedule = KeySchedule(log)
        self._early_accepted: bool | None = None
        self._place = (0, 0)  # time and packet of the first byte of the record that is read
        self._budget = SEARCH_BYTES

    # --- what the engine calls ---

    def receive(self, direction: int, event: Chunk | Gap) -> list[Event]:
        """Take bytes or a hole of one direction."""
        side = self._sides[direction]
        if not side.dead:
            side.reader.put(event)
            self._advance()
        return self._collect()

    def note_resent(self, direction: int, resent: Resent) -> list[Event]:
        """Bytes were sent again: report it in plaintext offsets, now or when their records are opened."""
        self._sides[direction].note_resent(resent)
        return self._collect()

    def close(self) -> list[Event]:
        """Nothing more will come."""
        for side in self._sides:
            side.reader.final = True
        self._advance()
        for side in self._sides:
            if side.lost_at >= 0 and side.gap and side.epoch.stage == APPLICATION:
                side.hole(side.gap, side.gap.length)  # nothing was found after it
            side.dead = True
        return self._collect()

    @property
    def cipher(self) -> str | None:
        """Cipher suite, by its registered name."""
        return self._schedule.cipher

    @property
    def held(self) -> int:
        """Bytes kept for records and handshake messages that are not whole yet."""
        return sum(side.held for side in self._sides)

    def shed(self) -> None:
        """Give up: too much memory is held."""
        self._give_up("Its records were given up: more waited than the limit `memory_bytes` allows")

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
            self.handshake.lost(direction == self.client)
            self._lose(side, item)
        return True

    def _waits(self, direction: int, item: Record | Gap) -> bool:
        """Whether this must wait for what the other direction says."""
        other = self._sides[1 - direction]
        handshake = isinstance(item, Record) and item.type == HANDSHAKE and item.whole
        if self._schedule.offer is None:
            first = item.data[5:6] if handshake and isinstance(item, Record) else b""
            side = self._sides[direction]
            if first == bytes([CLIENT_HELLO]) or (handshake and side.messages):
                self.client = direction
                return False
            if first != bytes([SERVER_HELLO]):
                self._give_up("The TLS handshake was not captured")
            return not side.dead and not other.dead
        if self._schedule.choice is None:
            return direction == self.client and not handshake and not other.dead
        early = direction == self.client and self._schedule.offer.early_data and self._early_accepted is None
        return early and not handshake and not other.dead

    def _collect(self) -> list[Event]:
        """What the directions have to report."""
        return [(direction, event) for direction, side in enumerate(self._sides) for event in side.collect()]

    def _give_up(self, problem: str) -> None:
        """Read nothing more, in either direction."""
        self.problem = self.problem or problem
        for side in self._sides:
            side.kill()

    def _go_blind(self, problem: str) -> None:
        """No plaintext from here on: read what the handshake needs, and nothing more."""
        self.problem = self.problem or problem
        self._blind = True
        for direction, side in enumerate(self._sides):
            if not self.handshake.needs(direction == self.client):
                side.kill()

    # --- records ---

    def _record(self, direction: int, side: TlsSide, record: Record, pieces: Pieces) -> None:
        client = direction == self.client
        self._place = pieces.times[0], pieces.packet_refs[0]
        if record.type == ALERT and record.whole and self.alert is None and (told := alert_in_clear(record.data)):
            self.alert = direction, told
        self.handshake.record(client, record, pieces, messages_whole=side.messages is not None)
        if self._blind:
            self._watch(direction, side, record)
            return
        keys = side.epoch.keys
        tls13 = self._schedule.tls13
        if record.type == CHANGE_CIPHER_SPEC:
            if self._schedule.choice and not tls13:
                self._enter(side, self._schedule.epoch(client, APPLICATION))
            return
        if keys is None:
            if record.type == HANDSHAKE:
                self._plain_handshake(direction, side, record)
            return
        if tls13 and record.type != APPLICATION_DATA:
            return  # hellos repeated after a retry, and alerts before the keys changed
        plain = keys.open(side.sequence, record.data) if record.whole else None
        if plain is None:
            self._unopened(direction, side, record, pieces)
            return
        side.sequence += 1
        self._content(direction, side, record, plain, pieces)

    def _watch(self, direction: int, side: TlsSide, record: Record) -> None:
        """A record of a connection whose keys are not known."""
        client = direction == self.client
        if record.type == HANDSHAKE and self.handshake.reads_messages(client):
            self._plain_handshake(direction, side, record)
        if not self.handshake.needs(client):
            side.kill()

    def _content(self, direction: int, side: TlsSide, record: Record, plain: bytes, pieces: Pieces) -> None:
        """An opened record."""
        side.failures = 0
        side.opened = True
        kind = record.type
        if self._schedule.tls13:
            plain = plain.rstrip(b"\0")  # padding
            if not plain:
                return
            kind, plain = plain[-1], plain[:-1]
        if kind == HANDSHAKE:
            self._handshake(direction, side, plain)
        elif kind == APPLICATION_DATA and plain:
            assert side.epoch.keys is not None
            side.emit(record, plain, pieces, side.epoch.keys.first_byte)

    def _unopened(self, direction: int, side: TlsSide, record: Record, pieces: Pieces) -> None:
        """A record that does not verify, or that is not all there."""
        if record.whole:
            refused = side.epoch.stage in (EARLY, schedule.HANDSHAKE) and side.sequence == 0
            if self._try(direction, side, record, pieces, 0, MAX_FAILURES):
                return
            if refused and direction == self.client and self._schedule.offer and self._schedule.offer.early_data:
                return  # early data that the server refused, or whose secret is not in the log
            side.failures += 1
            if side.failures > MAX_FAILURES:
                self.problem = self.problem or "The records do not verify under the secrets of the key log"
                side.kill()
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
            side.hole(at, lost)

    # --- holes ---

    def _lose(self, side: TlsSide, item: Gap) -> None:
        """The record boundary is lost."""
        if self._blind:
            side.kill()
            return
        if not self._schedule.known:
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
        for epoch, sequence in self._guesses(direction == self.client, side, low, high):
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
                side.hole(side.gap, missing - lost * epoch.keys.overhead)
            side.lost_at, side.gap = -1, None
            side.messages = bytearray()
            side.sequence = sequence + 1
            self._content(direction, side, record, plain, pieces)
            return True
        return False

    def _guesses(self, client: bool, side: TlsSide, low: int, high: int) -> Iterator[tuple[Epoch, int]]:
        """Keys and sequence numbers, the likeliest first."""
        if side.epoch.keys:
            for lost in range(low, high + 1):
                yield side.epoch, side.sequence + lost
        following = self._schedule.following(client, side.epoch)
        while following:
            for sequence in range(high + 1):
                yield following, sequence
            following = self._schedule.following(client, following) if following.stage != APPLICATION else None

    # --- handshake ---

    def _plain_handshake(self, direction: int, side: TlsSide, record: Record) -> None:
        if record.whole:
            self._handshake(direction, side, record.data[5:])
        elif self._schedule.choice is None:
            self._give_up("The TLS handshake was not captured whole")
        else:
            side.messages = None

    def _handshake(self, direction: int, side: TlsSide, fragment: bytes) -> None:
        try:
            for kind, body in side.handshake(fragment):
                self._message(direction, side, kind, body)
        except ValueError as error:
            abandon = self._give_up if self._schedule.choice is None else self._go_blind
            abandon(f"Malformed TLS handshake: {error}")

    def _message(self, direction: int, side: TlsSide, kind: int, body: bytes) -> None:
        client = direction == self.client
        self.handshake.message(client, kind)
        if kind == CERTIFICATE and client and self.login is None and (who := self._subject(body)):
            self.login = Login(who, *self._place)
        if self._blind:
            return
        stage = side.epoch.stage
        if kind == CLIENT_HELLO and client:
            self._client_hello(hello.client_hello(body))
        elif kind == SERVER_HELLO and not client and self._schedule.offer:
            self._server_hello(hello.server_hello(body))
        elif kind == NEW_SESSION_TICKET and stage == PLAIN:
            self._schedule.ticket(body)
        elif kind == ENCRYPTED_EXTENSIONS and stage == schedule.HANDSHAKE:
            self._extensions(body)
        elif kind == END_OF_EARLY_DATA and stage == EARLY:
            self._enter(side, self._schedule.epoch(client, schedule.HANDSHAKE))
        elif kind == FINISHED and stage == schedule.HANDSHAKE:
            self._enter(side, self._schedule.epoch(client, APPLICATION))
        elif kind == KEY_UPDATE and stage == APPLICATION and self._schedule.tls13:
            self._enter(side, self._schedule.following(client, side.epoch))

    def _subject(self, body: bytes) -> str | None:
        """Whose certificate a client shows, where the whole message is well formed."""
        try:
            return hello.subject(body, tls13=self._schedule.tls13)
        except ValueError:
            return None

    def _client_hello(self, message: hello.ClientHello) -> None:
        if self._schedule.offer is None:
            self.sni = message.sni
            self.handshake.client_hello(message)
        self._schedule.offered(message)

    def _server_hello(self, message: hello.ServerHello) -> None:
        """Both hellos are known: find the secrets."""
        self.version = schedule.version(message)
        if message.retry:
            self._early_accepted = False
            return
        self.alpn = message.alpn or self.alpn
        self.handshake.server_hello(message)
        problem = self._schedule.chosen(message)
        if problem:
            self._go_blind(problem)
        elif self._schedule.tls13:
            self._begin13()

    def _begin13(self) -> None:
        """The server's handshake keys come at once; the client's as well, unless early data comes first."""
        for direction, side in enumerate(self._sides):
            self._enter(side, self._schedule.first(direction == self.client))
        if self._schedule.offer and not self._schedule.offer.early_data:
            self._early_accepted = False

    def _extensions(self, body: bytes) -> None:
        """EncryptedExtensions: where the server accepted early data, the client's first records are under its keys."""
        self.alpn, self._early_accepted = hello.encrypted_extensions(body)
        side = self._sides[self.client]
        early = self._schedule.early() if self._early_accepted else None
        if early and side.epoch.stage == schedule.HANDSHAKE and side.sequence == 0:
            self._enter(side, early)

    def _enter(self, side: TlsSide, epoch: Epoch | None) -> None:
        """From the next record on, a direction has these keys."""
        if epoch is None:
            self._go_blind("The key log lacks a secret of this session")
        else:
            side.enter(epoch)
