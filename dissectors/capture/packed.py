"""PacketBlocks as bytes, small enough to be sent elsewhere.

    at  size  field
     0     4  n: number of packets
     4     -  for each of COLUMNS: base (int64), width (uint8)
     -     -  for each of COLUMNS with a width: n values of that many bytes, value - base
     -     -  the payloads, one after the other

A column is kept as its least value and the distances from it, in the fewest bytes that hold them all; one that is the
same for all packets takes no bytes. All numbers are little-endian.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dissectors.capture.block import COLUMNS, PacketBlock, in_time_order

_KEPT = tuple(name for name in COLUMNS if name != "at")  # payloads lie one after the other: `at` follows from `have`
_UNSIGNED = ("src_hi", "src_lo", "dst_hi", "dst_lo")
_COLUMN = np.dtype([("base", "<i8"), ("width", "u1")])
_WIDTHS = (0, 1, 2, 4, 8)
_HEADER = 4


def pack(blocks: Sequence[PacketBlock]) -> bytes:
    """The packets of at least one block, in time order, payloads without what lies between them."""
    columns = {name: np.concatenate([getattr(b, name) for b in blocks]) for name in _KEPT}
    payloads = [data for block in blocks for data in _payloads(block)]
    order = in_time_order(columns["clock"], columns["file"], columns["number"])
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
        payloads = [payloads[i] for i in order.tolist()]
    heads = np.zeros(len(_KEPT), _COLUMN)
    values = []
    for head, name in zip(heads, _KEPT, strict=True):
        column = columns[name].view(np.int64)
        low, high = int(column.min()), int(column.max())
        width = next(w for w in _WIDTHS if high - low < 1 << 8 * w)
        if width == 8:
            low = 0
        head["base"], head["width"] = low, width
        if width:
            values.append((column - low).astype(f"<u{width}").tobytes())
    count = len(columns["clock"]).to_bytes(_HEADER, "little")
    return b"".join([count, heads.tobytes(), *values, *payloads])


def unpack(data: bytes | memoryview) -> PacketBlock:
    """What `pack` was given, as one block over the same bytes."""
    view = memoryview(data)
    count = int.from_bytes(view[:_HEADER], "little")
    heads = np.frombuffer(view, _COLUMN, len(_KEPT), _HEADER)
    at = _HEADER + heads.nbytes
    columns: dict[str, Any] = {}
    for name, base, width in zip(_KEPT, heads["base"].tolist(), heads["width"].tolist(), strict=True):
        if width:
            column = np.frombuffer(view, f"<u{width}", count, at).astype(np.int64)
            if base:
                column += base
        else:
            column = np.full(count, base, np.int64)
        columns[name] = column.view(np.uint64) if name in _UNSIGNED else column
        at += count * width
    starts = np.zeros(count, np.int64)
    np.cumsum(columns["have"][:-1], out=starts[1:])
    return PacketBlock(view[at:], at=starts, **columns)


def _payloads(block: PacketBlock) -> list[memoryview]:
    buffer = memoryview(block.buffer)
    return [buffer[a:b] for a, b in zip(block.at.tolist(), (block.at + block.have).tolist(), strict=True)]
