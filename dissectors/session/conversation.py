"""What a protocol is to the engine, and what the engine promises a protocol.

Sans-IO, as in h11: a Conversation is fed the bytes of both directions of one connection and appends rows to a sink. It
opens nothing and reads no clock. Below it, `framing` cuts frames and hands them over **in the order in which they were
complete on the wire, both directions merged**, and `reporter` puts findings into the sink.

A protocol supplies four small functions:

    measure    how long is the frame that starts here?
    resync     where, from here on, does a frame start?
    on_frame   here is a frame
    on_close   nothing more will come
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from dissectors.checksum.unit_format import UnitFormat
from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.errors import UsageError
from dissectors.options import Options
from dissectors.records import Conn
from dissectors.redaction import CredentialCarriers
from dissectors.rows.sink import Sink
from dissectors.session.framing import Framing
from dissectors.session.search import NeverInMidstream, Recogniser
from dissectors.session.spans import FrameSpans
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap


class ConversationSummary(NamedTuple):
    """What the conversation adds to its connection's row, beside what its frames come to."""

    dialect: str | None = None
    client_software: str | None = None
    client_version: str | None = None
    server_version: str | None = None


@carried
@compiled
class Conversation(Framing):
    """One connection of one protocol. Subclasses supply measure, resync, on_frame and on_close."""

    closed: cython.bint = False
    last_ns: int | None = None  # when its last packet came; known at its end
    hung_up: cython.bint = False  # a peer closed the connection; where it stays False, the capture ended first

    def receive(self, direction: int, event: Chunk | Gap) -> None:
        """Take bytes or a hole of one direction. Nothing is decoded before `advance`."""
        self.skipped_bytes += self.inboxes[direction].add(event)

    def advance(self) -> None:
        """Decode every frame that is complete, in the order in which they became complete."""
        self.cut_frames(False)

    def shed(self) -> None:
        """Give up what is not whole: too much memory is held."""
        self.cut_frames(True)
        for direction in (CLIENT, SERVER):
            self.give_up(direction)

    def end(self, last_ns: int | None = None, hung_up: bool = False) -> None:
        """The connection has ended, or the capture has: decode the rest.

        last_ns: when its last packet came; hung_up: whether a peer closed the connection.
        """
        self.closed, self.hung_up = True, hung_up
        self.closing.end(last_ns, hung_up)
        self.last_ns = last_ns
        if any(self.inboxes):
            self.cut_frames(True)
            for direction in (CLIENT, SERVER):
                while self.go_on_within(direction):
                    self.cut_frames(True)
                self.cut_rest(direction)

    def finish(self) -> None:
        """After `end`: report what is still open."""
        self.closing.settle()
        self.on_close()
        if self.proven:
            self.confirm()

    def close(self, last_ns: int | None = None, hung_up: bool = False) -> None:
        """End the connection and report what is still open, unless that was done; see `end`."""
        if not self.closed:
            self.end(last_ns, hung_up)
            self.finish()

    def on_close(self) -> None:
        """Nothing more will come: report what is still open."""

    def release(self) -> None:
        """Let go of parts that refer back to the conversation; without this only the garbage collector frees them.

        A compiled subclass sets its parts to None as well.
        """
        getattr(self, "__dict__", {}).clear()

    def summary(self) -> ConversationSummary:
        """For the connection's row."""
        return ConversationSummary()


class Removal(NamedTuple):
    """Something that clients send and servers no longer understand.

    first, last: versions of the API, where it has versions; dialect: what it is said of, where the wire has dialects
    until: the last release of servers that understands it; since: the first that does not
    """

    api: str
    dialect: str | None
    first: int | None
    last: int | None
    until: str
    since: str


class Protocol:
    """A protocol: all that the rest of the program knows of it. Adding one is a folder and a line in `protocols.py`."""

    name: str
    ports: tuple[int, ...]
    colours: tuple[str, str] = ("#6b6f76", "#a3a8b0")
    """Of the report: on light paper, on dark paper."""

    brokers_verify_batches: bool = False
    """Whether a broker refuses a batch whose checksum is wrong: one that it took was right when it came."""

    def unit_formats(self) -> Mapping[str, UnitFormat]:
        """What forensics knows of checksummed units, by the column `format` of `batches`."""
        return {}

    def credentials(self) -> CredentialCarriers:
        """Where credentials may lie in its frames."""
        return CredentialCarriers()

    def dialects(self) -> Sequence[str]:
        """The dialects that a user may ask for with `--dialect`; none where the wire says its version itself."""
        return ()

    def older_names(self) -> Mapping[str, str]:
        """Names of APIs and error codes in older documents and clients -> their names in records."""
        return {}

    def releases(self) -> Sequence[str]:
        """The releases of its servers that are told apart, oldest first."""
        return ()

    def removals(self) -> Sequence[Removal]:
        """What clients send that servers of some release no longer understand."""
        return ()

    def changing(self) -> Mapping[str, tuple[str, str]]:
        """APIs whose requests change something that lasts -> kind of their event, and the thing (see `events`)."""
        return {}

    def api_names(self) -> frozenset[str]:
        """Names that the column `api` may have."""
        return frozenset()

    def body_names(self) -> frozenset[str]:
        """Names of the fields that its bodies may have, as `--full` shows them."""
        return frozenset()

    def error_meaning(self, code: int | None, name: str | None) -> str | None:
        """What an error says, in one line; None for one that is not known.

        code, name: as the columns of `errors` have them; one code may have several names, and the other way round.
        """
        return None

    def recognise(self, client: bytes, server: bytes) -> float:
        """How sure it is that these are the first bytes of one of its connections (either may be empty).

        0.0 certainly not; 0.9 and more certain: no other protocol is asked; between: more bytes would tell. The answer
        must not fall from certain as bytes are added.
        """
        raise NotImplementedError

    def recogniser(self) -> Recogniser:
        """A recogniser for a connection that began before the capture: its bytes may begin inside a frame."""
        return NeverInMidstream()

    def conversation(self, conn: Conn, sink: Sink, options: Options, *, midstream: bool) -> Conversation:
        """A new conversation for one connection."""
        raise NotImplementedError

    def sized(self, frame: bytes) -> bytes:
        """A frame, with its size in front where that is missing."""
        return frame

    def request_head(self, response: bytes, api: str | int | None, version: int | None) -> bytes:
        """What a request that this response answers begins with, as a frame; nothing where the response says that.

        api: its name or number, as users give it. Raises UsageError where it is needed and not given, or unknown.
        """
        return b""

    def spans(self, dialect: str | None) -> FrameSpans:
        """What tells of the bytes of the frames of one connection. dialect: as its row in `connections` has it."""
        return FrameSpans()


def api_code(protocol: str, api: str | int, names: Mapping[int, str]) -> int:
    """The number of an API that a user gives by name or number. Raises UsageError."""
    if isinstance(api, int) or api.lstrip("-").isdecimal():
        if int(api) in names:
            return int(api)
    else:
        for code, name in names.items():
            if name.lower() == api.lower():
                return code
    raise UsageError(f"{protocol} has no API {api!r}")
