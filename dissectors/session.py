"""What a TCP connection turns out to be: recognition, and the conversation that follows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import TYPE_CHECKING, cast

from dissectors.capture.block import VIA, address
from dissectors.conversation import Conversation, Protocol, Summary
from dissectors.options import Options
from dissectors.records import Conn, Connection, Finding
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, SIDES, Chunk, Gap, Resent, Span, whole
from dissectors.tcp.flow import Events as Side
from dissectors.tcp.flow import Flow
from dissectors.tls import KeyLog, looks_like_tls

if TYPE_CHECKING:
    from dissectors.tls.layer import TlsLayer

CERTAIN = 0.9
LIKELY = 0.5
_HINTED = itemgetter(0)
HINTED = 0.1  # enough where the port is one of the protocol's own

Verdict = tuple["Protocol | None", int]  # and the client's direction
Fresh = tuple[Side, Side]  # of direction 0 and 1
Events = tuple[list[Chunk | Gap], list[Chunk | Gap]]  # the same, with bytes of their own
Notes = tuple[Sequence[Resent], Sequence[Resent]]


class _Sniffed:
    """What was seen of a stream whose protocol is not known yet."""

    __slots__ = ("broken", "headless", "notes", "prefix", "waiting")

    def __init__(self) -> None:
        self.waiting: Events = ([], [])
        self.notes: tuple[list[Resent], list[Resent]] = ([], [])
        self.prefix = (bytearray(), bytearray())
        self.broken = [False, False]  # a hole ended the prefix
        self.headless = False  # the first bytes are missing


class Session:
    """One flow on its way from bytes to records.

    Until the protocol is known, events wait here. Recognition looks at the bytes segment by segment, in the order of
    their delivery, so that its answer does not depend on how the capture was cut. A stream that is TLS goes through a
    layer that gives plaintext where the key log has the secrets; recognition then looks at that.
    """

    __slots__ = (
        "_client",
        "_keylog",
        "_protocols",
        "_settled",
        "_sniffed",
        "_tls",
        "conn",
        "flow",
        "options",
        "protocol",
        "sink",
        "site",
        "talk",
    )

    def __init__(
        self,
        site: str,
        flow: Flow,
        protocols: tuple[Protocol, ...],
        sink: Sink,
        options: Options,
        keylog: KeyLog | None = None,
    ) -> None:
        self.site = site
        self.flow = flow
        self.sink = sink
        self.options = options
        self.protocol: Protocol | None = None
        self.talk: Conversation | None = None
        self.conn: Conn | None = None
        self._client: int | None = flow.opener  # the direction in which the client sends
        self._protocols = protocols
        self._keylog = keylog
        self._tls: TlsLayer | None = None
        self._settled = False  # whether it is known which protocol this is, or that none of ours
        self._sniffed: _Sniffed | None = None

    def deliver(self) -> None:
        """Take what the flow delivered, as far as the conversation; it decodes when its protocol advances it."""
        events = self.flow.take()
        a, b = self.flow.halves
        notes: Notes = (a.resent, b.resent)
        if notes[0] or notes[1]:
            a.resent = b.resent = ()
        if self._tls is not None:
            self._pass_on(*self._decrypt(self._tls, _own(events), notes))
        elif self._settled:
            if self.talk is not None:
                self._feed(events, notes)
        elif (verdict := self._at_once(events)) is not None:
            self._settle(verdict, events, notes)
        else:
            self._pass_on(_own(events), notes)

    def _pass_on(self, events: Events, notes: Notes) -> None:
        """Towards the conversation, or to where events wait for one."""
        if not self._settled:
            sniffed = self._sniffed
            if sniffed is None:
                sniffed = self._sniffed = _Sniffed()
            for direction in (0, 1):
                sniffed.waiting[direction].extend(events[direction])
                sniffed.notes[direction].extend(notes[direction])
            if events[0] or events[1]:
                self._recognise(sniffed, events)
        elif self.talk is not None:
            self._feed(events, notes)

    def close(self) -> None:
        """The flow has ended."""
        if self.flow.has_news:
            self.deliver()
        if self._tls is not None:
            self._pass_on(*_sorted(self._tls.close()))
        if not self._settled:
            self._settle(self._best(final=True))
        if self.talk is not None:
            self.talk.close()
        if self.conn is None:
            self.conn = self._conn(None)
        if "findings" in self.sink.tables:
            self._tell_conflicts()
            self._tell_tls()
        if "connections" in self.sink.tables:
            self.sink.connections.append(self._row(self.talk.summary() if self.talk else Summary()))

    @property
    def held(self) -> int:
        """Bytes kept: behind holes, for unfinished frames, for recognition."""
        waiting = 0
        if self._sniffed is not None:
            waiting = sum(len(e.data) for events in self._sniffed.waiting for e in events if isinstance(e, Chunk))
        halves = self.flow.halves
        return waiting + halves[0].held_bytes + halves[1].held_bytes + (self.talk.held if self.talk is not None else 0)

    def shed(self) -> None:
        """Give up what is not whole: too much memory is held."""
        self.flow.finish(self.options.limits)
        self.deliver()
        if not self._settled:
            self._settle(self._best(final=True))
        if self.talk is not None:
            self.talk.shed()

    # --- TLS ---

    def _is_opaque(self) -> bool:
        """Whether nothing that is wanted can be told of a TLS connection."""
        hopeless = self._keylog is None or self._keylog.hopeless
        return hopeless and self.sink.tables.isdisjoint(("connections", "findings"))

    def _start_tls(self, sniffed: _Sniffed) -> None:
        """What waits is TLS records: take it through the layer, and look at what comes out."""
        from dissectors.tls.layer import TlsLayer  # with its ciphers: loaded when TLS is met

        self._tls = TlsLayer(self._keylog)
        self._sniffed = _Sniffed()
        self._sniffed.headless = sniffed.headless
        self._pass_on(*self._decrypt(self._tls, sniffed.waiting, sniffed.notes))

    @staticmethod
    def _decrypt(tls: TlsLayer, events: Events, notes: Notes) -> tuple[Events, Notes]:
        out = []
        for direction in (0, 1):
            for event in events[direction]:
                out += tls.receive(direction, event)
            for note in notes[direction]:
                out += tls.note_resent(direction, note)
        return _sorted(out)

    def _tell_tls(self) -> None:
        if self._tls is not None and self._tls.problem and self._keylog:
            flow = self.flow
            self.sink.findings.append(
                Finding(
                    self.conn,
                    "not_decrypted",
                    "info",
                    message=self._tls.problem,
                    time=flow.first_time,
                    place=flow.first_place,
                )
            )

    # --- recognition ---

    def _at_once(self, events: Fresh) -> Verdict | None:
        """What `_recognise` would find, where the client's first segment leaves no doubt and its port says the same."""
        client = self._client
        if client is None or self._sniffed is not None or self.options.decode_as:
            return None
        sent, answers = events[client], events[1 - client]
        if not sent or (answers and _first_order(answers[0]) < _first_order(sent[0])) or isinstance(sent[0], Gap):
            return None
        head = sent[0].head
        tls = looks_like_tls(head, b"")
        if tls is not False:
            return (None, client) if tls and self._is_opaque() else None
        protocol = _by_port(self._protocols).get(self.flow.ends[5 - 3 * client])
        if protocol is None or protocol.recognise(head, b"", midstream=False) < CERTAIN:
            return None
        return protocol, client

    def _recognise(self, sniffed: _Sniffed, events: Events) -> None:
        forced = self._forced()
        prefix = sniffed.prefix
        for direction, data in _pieces(events):
            if data is None:
                if prefix[direction]:
                    sniffed.broken[direction] = True
                else:
                    sniffed.headless = True
            elif not sniffed.broken[direction]:
                prefix[direction].extend(data)
            if self._tls is None:
                tls = looks_like_tls(bytes(prefix[0]), bytes(prefix[1]))
                if tls:
                    if self._is_opaque():
                        self._settle((None, self._guess_client()))
                    else:
                        self._start_tls(sniffed)
                    return
                if tls is None and len(prefix[0]) + len(prefix[1]) < self.options.limits.sniff_bytes:
                    continue
            verdict = forced or self._best(final=False)
            if verdict is not None:
                self._settle(verdict)
                return

    def _forced(self) -> Verdict | None:
        """What the user says about one of the ports."""
        for direction in (0, 1):
            port = self.flow.ends[5 - 3 * direction]  # the port that this direction sends to
            name = self.options.decode_as.get(port)
            if name is not None and self._client in (None, direction):
                return next((p for p in self._protocols if p.name == name), None), direction
        return None

    def _best(self, final: bool) -> Verdict | None:
        """(protocol or None, client's direction), or None while more bytes could tell."""
        best: tuple[float, bool, Protocol, int] | None = None
        halves = self.flow.halves
        sniffed = self._sniffed or _Sniffed()
        midstream = sniffed.headless or not (halves[0].syn or halves[1].syn)
        prefix = bytes(sniffed.prefix[0]), bytes(sniffed.prefix[1])
        for hinted, direction, protocol in self._candidates():
            confidence = protocol.recognise(prefix[direction], prefix[1 - direction], midstream)
            if confidence >= CERTAIN and (hinted or not midstream):
                return protocol, direction  # the first bytes of a connection leave no doubt; a search in mid-stream may
            if confidence > 0 and (best is None or (confidence, hinted) > best[:2]):
                best = (confidence, hinted, protocol, direction)
        if best is None:
            seen = prefix[0] or prefix[1]
            return (None, self._guess_client()) if seen or final else None
        confidence, hinted, protocol, direction = best
        if confidence >= CERTAIN:
            return protocol, direction
        size = max(len(p) for p in prefix)
        if not final and size < self.options.limits.sniff_bytes:
            return None
        if confidence >= LIKELY or (hinted and confidence >= HINTED):
            return protocol, direction
        return None, self._guess_client()

    def _candidates(self) -> list[tuple[bool, int, Protocol]]:
        """(whether the port is one of its own, the client's direction, protocol): those whose port it is first."""
        directions = (0, 1) if self._client is None else (self._client,)
        ports = self.flow.ends[5], self.flow.ends[2]  # that each direction sends to
        every = [(ports[d] in protocol.ports, d, protocol) for d in directions for protocol in self._protocols]
        every.sort(key=_HINTED, reverse=True)
        return every

    def _settle(self, verdict: Verdict | None, events: Fresh | None = None, notes: Notes = ((), ())) -> None:
        """The protocol is known, or it is known that it cannot be; events and notes are what waits for it."""
        protocol, client = verdict or (None, self._guess_client())
        if events is None and self._sniffed is not None:
            events, notes = cast(Fresh, self._sniffed.waiting), self._sniffed.notes
        self._settled = True
        self._sniffed = None
        self._client = client
        if protocol is None or events is None:
            return
        self.protocol = protocol
        self.conn = self._conn(protocol.name)
        halves = self.flow.halves
        self.talk = protocol.conversation(
            self.conn, self.sink, self.options, midstream=not (halves[0].syn or halves[1].syn)
        )
        if self._tls is None:
            self.talk.bases = (halves[client].base, halves[1 - client].base)
        self._feed(events, notes)

    def _feed(self, events: Fresh | Events, notes: Notes) -> None:
        talk = self.talk
        assert talk is not None
        client = self._client
        for direction in (0, 1):
            side = CLIENT if direction == client else SERVER
            for note in notes[direction]:
                talk.note_resent(side, note)
            for event in events[direction]:
                talk.receive(side, event)

    def _guess_client(self) -> int:
        """Who opened the connection; where nothing tells, the lower port is the server's."""
        if self._client is not None:
            return self._client
        if self._tls is not None and self._tls.sni is not None:
            return self._tls.client
        known = {port for protocol in self._protocols for port in protocol.ports}
        a_port, b_port = self.flow.ends[2], self.flow.ends[5]
        if (a_port in known) != (b_port in known):
            return 1 if a_port in known else 0
        return 1 if a_port < b_port else 0

    # --- rows ---

    def _conn(self, protocol: str | None) -> Conn:
        a_hi, a_lo, a_port, b_hi, b_lo, b_port = self.flow.ends
        a, b = (address(a_hi, a_lo), a_port), (address(b_hi, b_lo), b_port)
        client, server = (a, b) if self._guess_client() == 0 else (b, a)
        return Conn(self.site, *client, *server, self.flow.incarnation, protocol)

    def _tell_conflicts(self) -> None:
        for direction, half in enumerate(self.flow.halves):
            side = SIDES[CLIENT if direction == self._guess_client() else SERVER]
            for conflict in half.conflicts:
                self.sink.findings.append(
                    Finding(
                        self.conn,
                        "retransmission_conflict",
                        "warning",
                        side,
                        f"{conflict.differing} bytes were sent again with other values",
                        conflict.time,
                        conflict.place,
                        conflict.offset,
                        conflict.length,
                        json.dumps(
                            {"first": self.sink.where(conflict.first_place), "second": self.sink.where(conflict.place)}
                        ),
                    )
                )

    def _row(self, summary: Summary) -> Connection:
        flow = self.flow
        client, server = flow.halves if self._guess_client() == 0 else flow.halves[::-1]
        halves = flow.halves
        seen = [flow.syn_time, flow.syn_ack_time, flow.ack_time]
        handshake = "full" if None not in seen else "partial" if any(t is not None for t in seen) else "none"
        rtt = None
        if flow.ack_time is not None and flow.syn_time is not None and handshake == "full":
            rtt = flow.ack_time - flow.syn_time
        via = ",".join(name for i, name in enumerate(VIA) if flow.via >> i & 1)
        assert self.conn is not None
        return Connection(
            conn=self.conn,
            dialect=summary.dialect,
            client_software=summary.client_software,
            client_version=summary.client_version,
            server_version=summary.server_version,
            tls=self._tls is not None,
            tls_version=self._tls.version if self._tls is not None else None,
            sni=self._tls.sni if self._tls is not None else None,
            via=via or None,
            start_time=flow.first_time,
            end_time=flow.last_time,
            duration_ns=flow.last_time - flow.first_time,
            handshake=handshake,
            rtt_ns=rtt,
            client_packets=client.packets,
            server_packets=server.packets,
            client_bytes=client.bytes,
            server_bytes=server.bytes,
            retransmissions=sum(h.retransmissions for h in halves),
            retransmitted_bytes=sum(h.retransmitted_bytes for h in halves),
            duplicates=sum(h.duplicates for h in halves),
            out_of_order=sum(h.out_of_order for h in halves),
            gaps=sum(h.gaps for h in halves),
            gap_bytes=sum(h.gap_bytes for h in halves),
            zero_windows=sum(h.zero_windows for h in halves),
            keep_alives=sum(h.keep_alives for h in halves),
            closed="reset" if flow.reset else "fin" if flow.finished else "open",
            frames=summary.frames,
            framed_bytes=summary.framed_bytes,
            skipped_bytes=summary.skipped_bytes,
            pending_bytes=summary.pending_bytes,
            place=flow.first_place,
        )


def _sorted(events: list[tuple[int, Chunk | Gap | Resent]]) -> tuple[Events, Notes]:
    """What a TLS layer gives, by direction."""
    plain: Events = ([], [])
    notes: tuple[list[Resent], list[Resent]] = ([], [])
    for direction, event in events:
        if isinstance(event, Resent):
            notes[direction].append(event)
        else:
            plain[direction].append(event)
    return plain, notes


@cache
def _by_port(protocols: tuple[Protocol, ...]) -> dict[int, Protocol]:
    """Which protocol is the first one to be asked where a server has this port."""
    return {port: protocol for protocol in reversed(protocols) for port in protocol.ports}


def _own(events: Fresh) -> Events:
    """Events that no longer need their block."""
    a, b = ([whole(event) for event in side] for side in events)
    return a, b


def _first_order(event: Chunk | Span | Gap) -> int:
    if isinstance(event, Span):
        return int(event.segments.orders[event.first])
    return event.orders[0] if isinstance(event, Chunk) else event.order


def _pieces(events: Events) -> Iterator[tuple[int, bytes | None]]:
    """The segments in both directions' events in the order of delivery: (direction, bytes, or None for a hole)."""
    sides = (_split(events[0]), _split(events[1]))
    heads = [next(side, None) for side in sides]
    while True:
        a, b = heads
        if a is None and b is None:
            return
        direction = 0 if b is None or (a is not None and a[0] < b[0]) else 1
        head = heads[direction]
        assert head is not None
        yield direction, head[1]
        heads[direction] = next(sides[direction], None)


def _split(events: list[Chunk | Gap]) -> Iterator[tuple[int, bytes | None]]:
    """(order, bytes, or None for a hole) of each segment."""
    for event in events:
        if isinstance(event, Gap):
            yield event.order, None
            continue
        offset, starts, last = event.offset, event.starts, len(event.starts) - 1
        for i, order in enumerate(event.orders):
            end = starts[i + 1] - offset if i < last else len(event.data)
            yield order, event.data[starts[i] - offset : end]
