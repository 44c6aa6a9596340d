"""Idle connections as bytes: a tenth of the room, until their next packet or their end.

All that is known of a connection is plain values, so it can be pickled; what it shares with all others stays outside.
Connections are alike: the classes and texts of some are learned once, and the others refer to them by number. What
remains is compressed, with those some as the dictionary.
"""

from __future__ import annotations

import io
import pickle
import struct
import sys
from collections.abc import Iterator, Sequence
from operator import itemgetter
from types import BuiltinFunctionType, FunctionType
from typing import Any, NamedTuple

import zstandard

from dissectors.compiling.saved_state import StateReader, method_of
from dissectors.tcp.flow import Ends, Flow
from dissectors.tcp.recent import Runs

_PROTOCOL = 3  # of pickles: later ones number what they memorise from 0 on, whatever is known already
_SAMPLES = 64  # connections to learn from
_LEARNED = (type, str, FunctionType, BuiltinFunctionType)
_DICTIONARY = 1 << 18  # bytes: all samples of usual connections
_LEVEL = 3  # of compression
_HEAD = struct.Struct("=qqq?")  # as Packed has it
_OPEN = -(1 << 63)  # no time of closing
_NOBODY = (0, 0, 0, 0, 0, 0)
_FAILURES = (TypeError, AttributeError, pickle.PicklingError, RecursionError)  # a cipher in the middle of a stream


class Packed(NamedTuple):
    """The questions that a packed connection answers without being unpacked."""

    incarnation: int
    closed_at: int | None
    last_time: int
    has_session: bool

    @classmethod
    def of(cls, data: bytes) -> Packed:
        """What stands before the rest of it."""
        incarnation, closed_at, last_time, has_session = _HEAD.unpack_from(data)
        return cls(incarnation, None if closed_at == _OPEN else closed_at, last_time, has_session)


class Learned(NamedTuple):
    """What connections are likely to hold."""

    known: list[object]  # referred to by number
    samples: bytes  # connections as bytes: the dictionary of what is compressed


class Packer:
    """Packs connections, all of which refer to the same `shared` objects."""

    def __init__(self, shared: Sequence[object] = (), learned: Learned | None = None) -> None:
        self._shared = list(shared)
        self._learned: Learned | None = None  # once there are connections to learn from
        if learned is not None:
            self._remember([_same(each) for each in learned.known], learned.samples)

    def __reduce__(self) -> tuple[Any, ...]:
        """What is packed can be unpacked by the copy of a pickle, too."""
        return Packer, (self._shared, self._learned)

    def pack(self, flows: Sequence[Flow]) -> Iterator[bytes | None]:
        """Connections as bytes, which are not to be used any more; None for one that holds more than plain values.

        Without their endpoints, which who keeps them knows, and without their recent bytes. Those that are most like
        connections to come stand last.
        """
        if self._learned is None and flows:
            self._learn(flows[-_SAMPLES:])
        for flow in flows:
            data = self._pickles.dump(flow)
            if data is None:
                yield None
                continue
            closed_at = _OPEN if flow.closed_at is None else flow.closed_at
            head = _HEAD.pack(flow.incarnation, closed_at, flow.last_time, flow.session is not None)
            yield head + self._compressor.compress(data)

    def unpack(self, packed: bytes, ends: Ends, recent: tuple[Runs, Runs] | None) -> Flow:
        """The connection, with its endpoints and recent bytes."""
        flow = self._pickles.load(self._decompressor.decompress(memoryview(packed)[_HEAD.size :]))
        flow.ends = ends
        if recent is not None:
            flow.halves[0].recent, flow.halves[1].recent = recent
        return flow

    def _learn(self, flows: Sequence[Flow]) -> None:
        """Note what other connections are likely to hold, too."""
        plain, common = _Pickles(self._shared), {id(each): each for each in self._shared}
        for flow in flows:
            met = (_same(each) for each in plain.met(flow) if isinstance(each, _LEARNED))
            common.update((id(each), each) for each in met)
        known = list(common.values())
        pickles = _Pickles(known)
        self._remember(known, b"".join(pickles.dump(flow) or b"" for flow in flows)[-_DICTIONARY:])

    def _remember(self, known: list[object], samples: bytes) -> None:
        self._learned = Learned(known, samples)
        self._pickles = _Pickles(known)
        dictionary = zstandard.ZstdCompressionDict(samples, zstandard.DICT_TYPE_RAWCONTENT)
        dictionary.precompute_compress(_LEVEL)
        self._compressor = zstandard.ZstdCompressor(dict_data=dictionary, write_dict_id=False)
        self._decompressor = zstandard.ZstdDecompressor(dictionary)


def _same(each: object) -> object:
    """Of equal texts the one object that attributes are named by, in every connection and in every process.

    And `getattr` as it is written, where each comes from state that was read.
    """
    if each is method_of:
        return getattr
    return sys.intern(each) if type(each) is str else each


class _Pickles:
    """Pickles of connections that refer to known objects by their numbers."""

    def __init__(self, known: Sequence[object]) -> None:
        writer: Any = pickle.Pickler(io.BytesIO(), _PROTOCOL)
        writer.memo = {id(each): (number, each) for number, each in enumerate(known)}
        reader: Any = _Introduction(known)
        reader.load()
        self._written, self._read = writer.memo, reader.memo

    def dump(self, flow: Flow) -> bytes | None:
        """A connection without its endpoints and its recent bytes; None where it holds more than plain values."""
        return self._dump(flow)[0]

    def met(self, flow: Flow) -> list[object]:
        """What is memorised on the way, in that order: a copy of the memo is ordered by where objects lie in memory."""
        memo = self._dump(flow)[1]
        return [each for _, each in sorted(memo.copy().values(), key=itemgetter(0))]

    def load(self, data: bytes) -> Flow:
        """The connection."""
        unpickler: Any = StateReader(io.BytesIO(data))
        unpickler.memo = self._read
        flow: Flow = unpickler.load()
        return flow

    def _dump(self, flow: Flow) -> tuple[bytes | None, Any]:
        pickler: Any = pickle.Pickler(out := io.BytesIO(), _PROTOCOL)
        pickler.memo = self._written
        a, b = flow.halves
        ends, recent = flow.ends, (a.recent, b.recent)
        flow.ends, a.recent, b.recent = _NOBODY, [], []
        try:
            pickler.dump(flow)
        except _FAILURES:
            return None, pickler.memo
        finally:
            flow.ends, (a.recent, b.recent) = ends, recent
        return out.getvalue(), pickler.memo


class _Introduction(pickle.Unpickler):
    """A pickle that makes objects known by their numbers, and nothing else."""

    def __init__(self, known: Sequence[object]) -> None:
        self._known = known
        numbers = (number.to_bytes(4, "little") for number in range(len(known)))
        one_by_one = (
            pickle.BININT + number + pickle.BINPERSID + pickle.LONG_BINPUT + number + pickle.POP for number in numbers
        )
        super().__init__(io.BytesIO(b"".join([*one_by_one, pickle.NONE, pickle.STOP])))

    def persistent_load(self, number: Any) -> Any:
        known = self._known[number]
        return method_of if known is getattr else known
