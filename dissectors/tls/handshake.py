"""How long a handshake took, and whether it resumed a session: by what is visible without keys.

    TLS 1.2           client  ClientHello                              … CCS, Finished
                      server               ServerHello … ServerHelloDone               CCS, Finished
    TLS 1.2, resumed  client  ClientHello                              CCS, Finished
                      server               ServerHello, CCS, Finished
    TLS 1.3           client  ClientHello                                        (CCS) [Finished]
                      server               ServerHello, (CCS) [… Finished]

What follows a ChangeCipherSpec (CCS), or stands in brackets, is encrypted; of such a record its type and size are
seen. In TLS 1.3 the first encrypted record of the client holds its Finished, or its certificate, which its Finished
follows in the same flight. An alert is encrypted as well, and shorter than either.

Each direction is watched by itself, so the result does not depend on how the two are interleaved.
"""

from __future__ import annotations

from dissectors.tls.hello import TLS13, ClientHello, ServerHello
from dissectors.tls.record import APPLICATION_DATA, CHANGE_CIPHER_SPEC, HANDSHAKE, HEADER, Pieces, Record

SERVER_HELLO_DONE = 14  # a message of full handshakes up to TLS 1.2
LARGEST_ALERT = 19  # bytes of an encrypted alert in TLS 1.3: 2, its type, and a tag of up to 16


class HandshakeWatch:
    """Told of every record of a connection, until it needs no more of them."""

    def __init__(self) -> None:
        self.resumed: bool | None = None
        """Whether an earlier session goes on; None where that is not known."""
        self._start: int | None = None  # time of the ClientHello's first byte
        self._choice: ServerHello | None = None
        self._early = False  # the client may send data before its Finished, which looks the same
        self._ciphered = [False, False]  # a ChangeCipherSpec was seen; of the client, of the server
        self._finished: list[int | None] = [None, None]  # time of the last byte of the Finished
        self._over = [False, False]  # nothing more is to be learnt from this direction

    @property
    def duration_ns(self) -> int | None:
        """First byte of the ClientHello to last byte of what ends the handshake; None where that is not known."""
        client, server = self._finished
        ends = (client,) if self._tls13 else (client, server)
        if self._start is None or self._choice is None or None in ends:
            return None
        took = max(end for end in ends if end is not None) - self._start
        return took if took >= 0 else None

    @property
    def _tls13(self) -> bool:
        return self._choice is not None and self._choice.version == TLS13

    def needs(self, client: bool) -> bool:
        """Whether more records of a direction could tell something."""
        return not self._over[not client]

    def reads_messages(self, client: bool) -> bool:
        """Whether the handshake messages of a direction are in clear behind the ServerHello, and tell something."""
        return not (self._tls13 or self._ciphered[not client] or self._over[not client])

    def client_hello(self, offer: ClientHello) -> None:
        """The first ClientHello."""
        self._early = offer.early_data

    def server_hello(self, choice: ServerHello) -> None:
        """A ServerHello that is no request to retry; the first one counts."""
        if self._choice is not None:
            return
        self._choice = choice
        if self._tls13:
            self.resumed = choice.pre_shared_key
            self._over = [self._over[0] or self._early, True]

    def message(self, client: bool, kind: int) -> None:
        """A handshake message behind the hellos."""
        if kind == SERVER_HELLO_DONE and not client and self.reads_messages(client):
            self.resumed = False

    def record(self, client: bool, record: Record, pieces: Pieces, *, messages_whole: bool) -> None:
        """A record of any type. messages_whole: all handshake messages of its direction so far were captured."""
        if self._start is None and client and record.type == HANDSHAKE:
            self._start = pieces.times[0]
        if self._choice is None or self._over[not client]:
            return
        if self._tls13:
            if record.type == APPLICATION_DATA:
                self._end(client, record, pieces, len(record.data) - HEADER > LARGEST_ALERT)
        elif self._ciphered[not client]:
            self._end(client, record, pieces, record.type == HANDSHAKE)
        elif record.type == CHANGE_CIPHER_SPEC:
            self._ciphered[not client] = True
            if not client and self.resumed is None and messages_whole:
                self.resumed = True

    def lost(self, client: bool) -> None:
        """Records of a direction are missing from here on."""
        self._over[not client] = True

    def _end(self, client: bool, record: Record, pieces: Pieces, finished: bool) -> None:
        """Take the record at which the Finished of a direction must stand. finished: it may hold one."""
        if finished and record.whole:
            self._finished[not client] = pieces.times[-1]
        self._over[not client] = True
