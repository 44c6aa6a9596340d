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
    of_blocks = [np.stack([getattr(block, name).view(np.int64) for name in _KEPT]) for block in blocks]
    columns = of_blocks[0] if len(of_blocks) == 1 else np.concatenate(of_blocks, axis=1)
    payloads = [data for block in blocks for data in _payloads(block)]
    order = in_time_order(*(columns[_KEPT.index(name)] for name in ("clock", "file", "number")))
    if order is not None:
        columns = columns[:, order]
        payloads = [payloads[i] for i in order.tolist()]
    lows, highs = columns.min(axis=1).tolist(), columns.max(axis=1).tolist()
    heads = np.zeros(len(_KEPT), _COLUMN)
    heads["width"] = widths = [
        next(width for width in _WIDTHS if high - low < 1 << 8 * width) for low, high in zip(lows, highs, strict=True)
    ]
    heads["base"] = bases = [0 if width == 8 else low for low, width in zip(lows, widths, strict=True)]
    values = [
        (column - base).astype(f"<u{width}").tobytes()
        for column, base, width in zip(columns, bases, widths, strict=True)
        if width
    ]
    count = columns.shape[1].to_bytes(_HEADER, "little")
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
