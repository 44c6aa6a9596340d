"""What a TCP connection turns out to be: recognition, and the conversation that follows."""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from dissectors.capture.block import address
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.findings import finding
from dissectors.options import Options
from dissectors.records import Conn, Event
from dissectors.rows import fields
from dissectors.rows.sink import Sink
from dissectors.rows.table import RowTable
from dissectors.session import connection_rows, foreign, preambles
from dissectors.session.conversation import Conversation, Protocol
from dissectors.session.deliveries import Events, Notes, behind, by_direction, first_order, pieces
from dissectors.session.exchange import shortened
from dissectors.session.preambles import Preamble
from dissectors.session.recognition import CERTAIN, NONE_OF_OURS, Recognition, Verdict, by_port, candidates
from dissectors.tcp import spurious
from dissectors.tcp.chunk import CLIENT, SERVER, SIDES, Chunk, Gap, Resent
from dissectors.tcp.flow import Events as Side
from dissectors.tcp.flow import Flow
from dissectors.tls import KeyLog, looks_like_tls
from dissectors.tls.alerts import ALERT_SIZE, alert_in_clear

if TYPE_CHECKING:
    from dissectors.tls.layer import TlsLayer

_SERVER_HEAD = 16  # bytes of a server that tell what it speaks
_NO_HANDSHAKE = {b"\x15": foreign.TLS_ALERT, b"\x16": None}
"""What a connection without a whole ServerHello is, by the server's first byte: an alert, a hello that was cut."""
_BY_CERTIFICATE = "TLS certificate"


class Undetermined:
    """What was seen of a stream whose protocol is not known yet."""

    __slots__ = ("notes", "recognition", "waiting")

    def __init__(self, recognition: Recognition) -> None:
        self.waiting: Events = ([], [])
        self.notes: tuple[list[Resent], list[Resent]] = ([], [])
        self.recognition = recognition


@final
@carried
@compiled
class ConnectionSession:
    """One flow on its way from bytes to records.

    Until the protocol is known, events wait here. Recognition looks at the bytes segment by segment, in the order of
    their delivery, so that its answer does not depend on how the capture was cut. A stream that is TLS goes through a
    layer that gives plaintext where the key log has the secrets; recognition then looks at that.
    """

    site: str
    flow: Flow
    sink: Sink
    options: Options
    protocol: Protocol | None = None
    conversation: Conversation | None = None
    conn: Conn | None = None
    _client: int | None  # the direction in which the client sends
    _protocols: tuple[Protocol, ...]
    _keylog: KeyLog | None
    _tls: TlsLayer | None = None
    _login_told: cython.bint = False
    _bound: cython.bint = False  # whether it is known which protocol this is, or that none of ours
    _gave_up: cython.bint = False  # a search for a protocol passed places over, and none was found
    _undetermined: Undetermined | None = None
    _preamble: Preamble | None = None  # what was stepped over
    _server_head: bytes | None = None  # the first bytes of a connection's server
    _foreign: str | None = None  # what a peer speaks that is none of ours
    _left_out: cython.longlong = 0  # bytes of it that no conversation gets

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
        self._client = flow.opener
        self._protocols = protocols
        self._keylog = keylog

    def deliver(self) -> None:
        """Take what the flow delivered, as far as the conversation; it decodes when its protocol advances it."""
        if self._bound:
            self._report_stalls()
        events = self.flow.take()
        a, b = self.flow.halves
        notes: Notes = (a.resent, b.resent)
        if notes[0] or notes[1]:
            a.resent, b.resent = [], []
        elif not (events[0] or events[1]):
            return  # all that came waits for its turn
        if self._tls is not None:
            self._pass_on(*self._decrypt(self._tls, events, notes))
        elif self._bound:
            if self.conversation is not None:
                self._feed(events, notes)
        elif (verdict := self.classify_first_segment(events)) is not None:
            self.bind_protocol(verdict, events, notes)
        else:
            self._pass_on(events, notes)

    def _pass_on(self, events: Events, notes: Notes) -> None:
        """Towards the conversation, or to where events wait for one."""
        if not self._bound:
            undetermined = self._undetermined
            if undetermined is None:
                undetermined = self._undetermined = Undetermined(self._recognition())
            for direction in (0, 1):
                undetermined.waiting[direction].extend(events[direction])
                undetermined.notes[direction].extend(notes[direction])
            if events[0] or events[1]:
                self._recognise(undetermined, events)
        elif self.conversation is not None:
            self._feed(events, notes)

    def end(self) -> None:
        """The flow has ended: bring the rest to the conversation."""
        if self.flow.has_news:
            self.deliver()
        if self._tls is not None:
            self._pass_on(*by_direction(self._tls.close()))
        self._conclude()
        self._note_closing()
        if self.conversation is not None:
            self.conversation.end(self.flow.last_time, hung_up=self.flow.closer >= 0)

    def _note_closing(self) -> None:
        """Tell the conversation who has closed the connection, if anybody has."""
        if self.flow.closer >= 0 and self.conversation is not None:
            client = self._guess_client()
            halves = self.flow.halves
            self.conversation.closing.see(halves[client], halves[1 - client], is_plain=self._tls is None)

    def close(self) -> None:
        """Behind `end`: report what is still open, and the connection."""
        if self.conversation is not None:
            self.conversation.finish()
            if self._forced():
                self.conversation.confirm()
            elif not self.conversation.frames:
                self._hand_back()
        for half in self.flow.halves:
            if half.doubted:
                spurious.give_up(half)
            half.stalls.end(half.acked, self.flow.last_time)
        self._report_stalls()
        if self.conn is None:
            self.conn = self._conn(None)
        self._report_login()
        if "findings" in self.sink.tables:
            for conflict in connection_rows.conflicts(self.conn, self.flow, self._guess_client(), self.sink):
                self.sink.findings.append(conflict)
            self._report_tls()
            self._report_foreign()
            if self._gave_up:
                message = "Many places look like the start of a frame; not all were judged, and no protocol was found"
                self._report("search_abandoned", message)
        if "connections" in self.sink.tables:
            self._write_row()
        self.release()

    def release(self) -> None:
        """Nobody asks it again. Its conversation refers to it in circles: see there."""
        if self.conversation is not None:
            self.conversation.release()
            self.conversation = None

    @property
    def recognised(self) -> bool:
        """Whether it is known which protocol this is, or that it is none of ours."""
        return self._bound

    @property
    def held(self) -> int:
        """Bytes kept: behind holes, for unfinished frames, for recognition."""
        waiting = 0
        if self._undetermined is not None:
            waiting = sum(len(e.data) for events in self._undetermined.waiting for e in events if isinstance(e, Chunk))
        halves = self.flow.halves
        return (
            waiting
            + halves[0].held_bytes
            + halves[1].held_bytes
            + (self._tls.held if self._tls is not None else 0)
            + (self.conversation.held if self.conversation is not None else 0)
        )

    def shed(self) -> None:
        """Give up what is not whole: too much memory is held."""
        self.flow.finish()
        self.deliver()
        self._conclude()
        if self._tls is not None and self._tls.held:
            self._tls.shed()
            self._report("limit", "TLS records that were not whole were given up: memory_bytes")
        if self.conversation is not None:
            self.conversation.shed()

    # --- TLS ---

    def _is_opaque(self) -> bool:
        """Whether nothing that is wanted can be known of a TLS connection."""
        hopeless = self._keylog is None or self._keylog.hopeless
        return hopeless and self.sink.tables.isdisjoint(("connections", "findings", "events"))

    def _start_tls(self, undetermined: Undetermined) -> None:
        """What waits is TLS records: take it through the layer, and look at what comes out."""
        from dissectors.tls.layer import TlsLayer  # with its ciphers: loaded when TLS is met

        self._tls = TlsLayer(self._keylog)
        self._undetermined = Undetermined(self._recognition(headless=undetermined.recognition.headless))
        self._pass_on(*self._decrypt(self._tls, undetermined.waiting, undetermined.notes))

    def _decrypt(self, tls: TlsLayer, events: Events, notes: Notes) -> tuple[Events, Notes]:
        """What TLS records carry."""
        out = []
        for direction in (0, 1):
            for note in notes[direction]:
                out += tls.note_resent(direction, note)
            for event in events[direction]:
                out += tls.receive(direction, event)
        self._look_at_server(events[1 - self._guess_client()])
        return by_direction(out)

    def _report_tls(self) -> None:
        if self._tls is not None and self._tls.problem and self._keylog:
            self._report("not_decrypted", self._tls.problem)

    def _report_login(self) -> None:
        """Write whose certificate the client showed: whether the server took it, no answer says."""
        login = self._tls.login if self._tls is not None else None
        if login is None or self._login_told or "events" not in self.sink.tables:
            return
        self._login_told = True
        assert self.conn is not None
        self.sink.events.append(
            Event(
                self.conn,
                "authenticated",
                subject=shortened(login.subject),
                text=_BY_CERTIFICATE,
                direction=SIDES[CLIENT],
                time=login.time,
                packet_ref=login.packet_ref,
            )
        )

    # --- other peers ---

    def _look_at_server(self, events: Side) -> None:
        """Keep the first bytes of the server."""
        if self._server_head is None and events and isinstance(events[0], Chunk):
            self._server_head = events[0].head[:_SERVER_HEAD]

    def _foreign_peer(self) -> str | None:
        """What a peer speaks that is none of ours, if that is known; of TLS, where no handshake took place."""
        tls = self._tls
        if tls is None or tls.version is not None or not self._opened:
            return self._foreign
        if self._server_head is not None:
            return _NO_HANDSHAKE.get(self._server_head[:1], foreign.TLS)
        was_there = (
            self.flow.halves[1 - self._guess_client()].packets > 0
        )  # the server; it answered nothing, and it is over
        return foreign.TLS if was_there and self.flow.closer >= 0 else None

    def _tls_alert(self) -> str | None:
        """Who sent the first TLS alert in clear, and what it says; of a client without TLS, the server's answer."""
        if self._tls is None:
            told = None if self._server_head is None else alert_in_clear(self._server_head[:ALERT_SIZE])
            return None if told is None else f"{SIDES[SERVER]}: {told}"
        if self._tls.alert is None:
            return None
        direction, told = self._tls.alert
        return f"{SIDES[CLIENT if direction == self._guess_client() else SERVER]}: {told}"

    def _report_foreign(self) -> None:
        """Where a broker is asked or answers, or would by its port: what speaks there instead."""
        peer = self._foreign_peer()
        port = self.flow.target_ports[self._guess_client()]
        if peer is None or (self.protocol is None and port not in by_port(self._protocols)):
            return
        if peer == foreign.TLS:
            self._report("tls_on_one_side", f"The client speaks TLS, and the server at port {port} does not")
        elif peer == foreign.TLS_ALERT and self._tls is None:
            self._report("tls_on_one_side", f"The client does not speak TLS, which the server at port {port} asks for")
        elif peer == foreign.HTTP:
            who = "client" if self.protocol is None else "server"
            self._report("other_protocol", f"The {who} speaks {peer.upper()}, at port {port}")

    # --- recognition ---

    def classify_first_segment(self, events: Events) -> Verdict | None:
        """What `_recognise` would find, where the client's first segment leaves no doubt and its port says the same."""
        client = self._client
        if client is None or self._undetermined is not None or self.options.decode_as:
            return None
        sent, answers = events[client], events[1 - client]
        if not sent or (answers and first_order(answers[0]) < first_order(sent[0])) or isinstance(sent[0], Gap):
            return None
        head = sent[0].head
        tls = looks_like_tls(head, b"")
        if tls is not False:
            return Verdict(None, client) if tls and self._is_opaque() else None
        protocol = by_port(self._protocols).get(self.flow.target_ports[client])
        if protocol is None or protocol.recognise(head, b"") < CERTAIN:
            return None
        return Verdict(protocol, client)

    def _recognition(self, *, headless: bool = False) -> Recognition:
        protocols = candidates(self._protocols, self.flow.target_ports, self._client)
        return Recognition(protocols, self.options.limits, headless=headless)

    @property
    def _opened(self) -> bool:
        return self.flow.halves[0].syn or self.flow.halves[1].syn

    def _recognise(self, undetermined: Undetermined, events: Events) -> None:
        forced = self._forced()
        recognition = undetermined.recognition
        for direction, data in pieces(events):
            if not recognition.take(direction, data):
                continue
            if self._tls is None and self._preamble is None and not (recognition.headless or recognition.exhausted):
                preamble = self._read_preamble(recognition)
                if isinstance(preamble, tuple):
                    self._step_over(undetermined, *preamble)
                    return
                if preamble:
                    continue
            if self._tls is None:
                tls = looks_like_tls(bytes(recognition.prefix[0]), bytes(recognition.prefix[1]))
                if tls:
                    if self._is_opaque():
                        self.bind_protocol(NONE_OF_OURS)
                    else:
                        self._start_tls(undetermined)
                    return
                if tls is None and not recognition.exhausted:
                    continue
            verdict = forced or recognition.verdict(opened=self._opened)
            if verdict is not None:
                self.bind_protocol(verdict)
                return

    def _read_preamble(self, recognition: Recognition) -> tuple[int, Preamble] | bool:
        """(the client's direction, the preamble that a connection begins with); else as `preambles.read`."""
        waits = False
        for direction in (0, 1) if self._client is None else (self._client,):
            found = preambles.read(bytes(recognition.prefix[direction]), bytes(recognition.prefix[1 - direction]))
            if isinstance(found, Preamble):
                return direction, found
            waits = waits or found
        return waits

    def _step_over(self, undetermined: Undetermined, client: int, preamble: Preamble) -> None:
        """What waits begins with a preamble: look at what follows it, as if the connection began there."""
        self._client, self._preamble = client, preamble
        self._undetermined = None
        sizes = (preamble.client, preamble.server) if client == 0 else (preamble.server, preamble.client)
        a, b = (behind(events, size) for events, size in zip(undetermined.waiting, sizes, strict=True))
        self._pass_on((a, b), undetermined.notes)

    def _conclude(self) -> None:
        """Decide by what was seen, if nothing is decided yet."""
        if not self._bound:
            verdict = None  # where nothing was delivered
            if self._undetermined is not None:
                verdict = self._undetermined.recognition.verdict(opened=self._opened, final=True)
            self.bind_protocol(verdict or NONE_OF_OURS)

    def _hand_back(self) -> None:
        """It was taken for a protocol by its port or some bytes, and no frame was found: it is none of ours."""
        assert self.protocol is not None
        assert self.conversation is not None
        self.conversation.release()
        taken_for, self.protocol, self.conversation = self.protocol.name, None, None
        self.conn = self._conn(None)
        if "findings" in self.sink.tables:
            message = f"This connection was taken for {taken_for}, and not one frame of it was found"
            self._report("not_recognised", message)

    def _report(self, kind: str, message: str) -> None:
        """A finding about the whole connection."""
        flow = self.flow
        self.sink.findings.append(
            finding(self.conn, kind, message, time=flow.first_time, packet_ref=flow.first_packet_ref)
        )

    def _forced(self) -> Verdict | None:
        """What the user says about one of the ports."""
        for direction, port in enumerate(self.flow.target_ports):
            name = self.options.decode_as.get(port)
            if name is not None and self._client in (None, direction):
                return Verdict(next((p for p in self._protocols if p.name == name), None), direction)
        return None

    def bind_protocol(self, verdict: Verdict, events: Events | None = None, notes: Notes = ((), ())) -> None:
        """The protocol is known, or it is known that it cannot be; events and notes are what waits for it."""
        protocol = verdict.protocol
        client = self._guess_client() if verdict.client is None else verdict.client
        if events is None and self._undetermined is not None:
            events, notes = self._undetermined.waiting, self._undetermined.notes
        if self._undetermined is not None and protocol is None:
            recognition = self._undetermined.recognition
            self._gave_up = recognition.passed_over > 0
            self._foreign = foreign.asks(bytes(recognition.prefix[client]))
        strange = self._undetermined is not None and self._undetermined.recognition.strange
        self._bound = True
        self._undetermined = None
        self._client = client
        if protocol is None or events is None:
            return
        self.protocol = protocol
        self.conn = self._conn(protocol.name)
        if events[0] or events[1]:
            self._report_login()
        halves = self.flow.halves
        self.conversation = protocol.conversation(
            self.conn, self.sink, self.options, midstream=strange or not self._opened
        )
        if self._tls is None:
            self.conversation.bases = (halves[client].base, halves[1 - client].base)
        self._feed(events, notes)

    def _feed(self, events: Events, notes: Notes) -> None:
        conversation = self.conversation
        assert conversation is not None
        self._note_closing()
        client = self._client
        if self._server_head is None and self._tls is None and client is not None:
            self._look_at_server(events[1 - client])
            if self._server_head is not None and self._opened:
                self._foreign = foreign.answers(self._server_head)
        if self._foreign is not None and client is not None:
            events, notes = self._without_server(client, events, notes)
        for direction in (0, 1):
            side = CLIENT if direction == client else SERVER
            for note in notes[direction]:
                conversation.resends.add(side, note)
            for event in events[direction]:
                conversation.receive(side, event)

    def _without_server(self, client: int, events: Events, notes: Notes) -> tuple[Events, Notes]:
        """Events without those of a server that speaks something else."""
        self._left_out += sum(len(event.data) for event in events[1 - client] if isinstance(event, Chunk))
        sent, again = events[client], notes[client]
        return ((sent, []), (again, ())) if client == 0 else (([], sent), ((), again))

    def _guess_client(self) -> int:
        """Who opened the connection; where nothing shows it, the lower port is the server's."""
        if self._client is not None:
            return self._client
        if self._tls is not None and self._tls.sni is not None:
            return self._tls.client
        known = {port for protocol in self._protocols for port in protocol.ports}
        b_port, a_port = self.flow.target_ports
        if (a_port in known) != (b_port in known):
            return 1 if a_port in known else 0
        return 1 if a_port < b_port else 0

    # --- rows ---

    def _conn(self, protocol: str | None) -> Conn:
        a_hi, a_lo, a_port, b_hi, b_lo, b_port = self.flow.ends
        a, b = (address(a_hi, a_lo), a_port), (address(b_hi, b_lo), b_port)
        client, server = (a, b) if self._guess_client() == 0 else (b, a)
        return Conn(self.site, *client, *server, self.flow.incarnation, protocol)

    def _report_stalls(self) -> None:
        """Write rows for what held back the two directions; none where the protocol is not one that is decoded."""
        wanted = self.protocol is not None and "stalls" in self.sink.tables
        for direction, half in enumerate(self.flow.halves):
            noted = half.stalls.take() if half.stalls.noted else ()
            for held in noted if wanted else ():
                assert self.conn is not None
                self.sink.stalls.append(connection_rows.stall(self.conn, direction == self._client, held))

    @compiled
    def _write_row(self) -> None:
        """Write the row of `connections`."""
        table: RowTable = self.sink.connections
        conversation: Conversation | None = self.conversation
        slot: cython.Py_ssize_t = table.open()
        connection_rows.write_flow(table, slot, self.flow, self._guess_client())
        table.put(slot, fields.CONNECTION_CONN, self.conn)
        table.put(slot, fields.CONNECTION_FOREIGN, self._foreign_peer())
        table.put(slot, fields.CONNECTION_TLS_ALERT, self._tls_alert())
        table.waiting[slot, fields.CONNECTION_SKIPPED_BYTES] = self._left_out
        if conversation is None:
            for field in fields.CONNECTION_FRAMES, fields.CONNECTION_FRAMED_BYTES, fields.CONNECTION_PENDING_BYTES:
                table.waiting[slot, field] = 0
        else:
            summary = conversation.summary()
            table.put(slot, fields.CONNECTION_DIALECT, summary.dialect)
            table.put(slot, fields.CONNECTION_CLIENT_SOFTWARE, summary.client_software)
            table.put(slot, fields.CONNECTION_CLIENT_VERSION, summary.client_version)
            table.put(slot, fields.CONNECTION_SERVER_VERSION, summary.server_version)
            table.waiting[slot, fields.CONNECTION_FRAMES] = conversation.frames
            table.waiting[slot, fields.CONNECTION_FRAMED_BYTES] = conversation.framed_bytes
            table.waiting[slot, fields.CONNECTION_SKIPPED_BYTES] += conversation.skipped_bytes
            table.waiting[slot, fields.CONNECTION_PENDING_BYTES] = conversation.pending_bytes
        table.waiting[slot, fields.CONNECTION_TLS] = self._tls is not None
        if self._tls is not None:
            handshake = self._tls.handshake
            table.put(slot, fields.CONNECTION_TLS_VERSION, self._tls.version)
            table.put(slot, fields.CONNECTION_TLS_HANDSHAKE_NS, handshake.duration_ns)
            table.put(slot, fields.CONNECTION_TLS_RESUMED, handshake.resumed)
            table.put(slot, fields.CONNECTION_SNI, self._tls.sni)
        if self._preamble is not None:
            preamble = self._preamble
            table.put(slot, fields.CONNECTION_PREAMBLE, preamble.name)
            table.put(slot, fields.CONNECTION_ORIGIN, preamble.origin)
            table.waiting[slot, fields.CONNECTION_FRAMED_BYTES] += preamble.client + preamble.server
        table.finish(slot)
