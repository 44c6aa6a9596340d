"""IP fragments, IPv4 and IPv6, put together again.

Fragments are rare, so they are handled one at a time: each adds its piece to the datagram that it belongs to; the one
that completes it takes the whole datagram's place in the packet columns and goes on through the layers. RFC 815's idea,
with a plain list of pieces in place of hole descriptors.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dissectors.capture.block import VIA
from dissectors.capture.layers import FRAGMENT, OTHER, Layers, next_kind

Ints = npt.NDArray[np.int64]

_DATAGRAMS = 4096  # incomplete ones kept; the oldest goes first
_DATAGRAM_BYTES = 65_536  # what the 13-bit offset can address
_TIMEOUT_NS = 60_000_000_000  # RFC 1122, 3.3.2
_VIA = 1 << VIA.index("fragments")


@dataclass(slots=True)
class _Datagram:
    time: int
    pieces: dict[int, bytes] = field(default_factory=dict)  # offset -> bytes
    total: int | None = None  # known once the last fragment was seen
    have: int = 0


class Fragments:
    """Datagrams of one file that wait for their fragments."""

    def __init__(self) -> None:
        self._open: OrderedDict[tuple[object, ...], _Datagram] = OrderedDict()
        self.overlaps = 0  # fragments that disagree with bytes seen before

    def join(self, layers: Layers, index: Ints, buffer: bytes, times: Ints) -> bytes:
        """Take the fragments at `index`; returns the buffer, with completed datagrams appended to it."""
        extra: list[bytes] = []
        size = len(buffer)
        done: list[int] = []
        for i in index.tolist():
            whole = self._add(layers, i, buffer, int(times[i]))
            if whole is None:
                layers.kind[i] = OTHER
                continue
            proto, data = whole
            layers.kind[i] = next_kind(proto)
            layers.proto[i] = proto
            layers.pos[i] = size
            layers.end[i] = layers.full[i] = size + len(data)
            layers.via[i] |= _VIA
            extra.append(data)
            size += len(data)
            done.append(i)
        if not extra:
            return buffer
        joined = b"".join([buffer, *extra])
        layers.over(joined)
        layers.run()  # a datagram may hold a tunnel, and that another fragment
        again = layers.fragments()
        layers.kind[again] = OTHER
        return joined

    def _add(self, x: Layers, i: int, buffer: bytes, time: int) -> tuple[int, bytes] | None:
        ip, at, end = int(x.ip_at[i]), int(x.pos[i]), int(x.end[i])
        addresses = (int(x.src_hi[i]), int(x.src_lo[i]), int(x.dst_hi[i]), int(x.dst_lo[i]))
        if x.u8[ip] >> 4 == 4:
            word = int(x.be16[ip + 6])
            offset, more = (word & 0x1FFF) * 8, bool(word & 0x2000)
            proto, ident = int(x.u8[ip + 9]), int(x.ip_id[i])
        else:
            if at + 8 > end:
                return None
            word = int(x.be16[at + 2])
            offset, more = word & 0xFFF8, bool(word & 1)
            proto, ident = int(x.u8[at]), int(x.be32[at + 4])
            at += 8
        if int(x.full[i]) > end or offset + end - at > _DATAGRAM_BYTES:
            return None  # cut by the capture, or impossible
        key = (addresses, proto, ident)
        datagram = self._open.get(key)
        if datagram is None or not 0 <= time - datagram.time <= _TIMEOUT_NS:
            datagram = self._open[key] = _Datagram(time)
            if len(self._open) > _DATAGRAMS:
                self._open.popitem(last=False)
        data = buffer[at:end]
        known = datagram.pieces.get(offset)
        if known is None:
            datagram.pieces[offset] = data
            datagram.have += len(data)
        elif known != data:
            self.overlaps += 1
        if not more:
            datagram.total = offset + len(data)
        if datagram.total is None or datagram.have < datagram.total:
            return None
        whole = bytearray()
        for start in sorted(datagram.pieces):
            piece = datagram.pieces[start]
            if start > len(whole):
                return None  # a hole: pieces overlap elsewhere
            if start < len(whole) and whole[start : start + len(piece)] != piece[: len(whole) - start]:
                self.overlaps += 1
            whole += piece[len(whole) - start :]
        del self._open[key]
        return proto, bytes(whole[: datagram.total])


__all__ = ["FRAGMENT", "Fragments"]
