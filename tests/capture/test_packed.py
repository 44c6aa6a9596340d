"""Blocks of packets survive being packed; fragments read apart find each other."""

from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.capture.block import COLUMNS, PacketBlock, concat
from dissectors.capture.packed import pack, unpack

INT = st.integers(-(1 << 63), (1 << 63) - 1)
SMALL = st.integers(0, 3)


@st.composite
def blocks(draw: Any) -> PacketBlock:
    payloads = draw(st.lists(st.binary(max_size=20), min_size=1, max_size=8))
    n = len(payloads)
    columns: dict[str, Any] = {
        name: np.array(draw(st.lists(draw(st.sampled_from([INT, SMALL])), min_size=n, max_size=n)), np.int64)
        for name in COLUMNS
    }
    for name in ("src_hi", "src_lo", "dst_hi", "dst_lo"):
        columns[name] = columns[name].view(np.uint64)
    columns["have"] = np.array([len(p) for p in payloads], np.int64)
    columns["at"] = np.cumsum([2 + len(p) for p in payloads]) - columns["have"]
    columns["clock"] = np.array(sorted(draw(st.lists(SMALL, min_size=n, max_size=n))), np.int64)
    return PacketBlock(b"".join(b"--" + p for p in payloads), **columns)


def packets(block: PacketBlock) -> list[tuple[Any, ...]]:
    kept = [name for name in COLUMNS if name != "at"]
    rows = zip(*(getattr(block, name).tolist() for name in kept), strict=True)
    data = [bytes(block.buffer[a : a + n]) for a, n in zip(block.at.tolist(), block.have.tolist(), strict=True)]
    return list(zip(rows, data, strict=True))


@given(st.lists(blocks(), min_size=1, max_size=3))
def test_what_is_packed_comes_out_in_time_order(some: list[PacketBlock]) -> None:
    for n, block in enumerate(some):  # no two packets have one file and number
        block.file[:] = n
        block.number[:] = np.arange(len(block))
    assert packets(unpack(pack(some))) == sorted(
        (p for block in some for p in packets(block)), key=lambda p: (p[0][3], p[0][0], p[0][1])
    )
    assert packets(unpack(pack(some))) == packets(concat(some))


def test_what_is_the_same_for_all_packets_takes_no_room() -> None:
    n = 1000
    columns: dict[str, Any] = {name: np.full(n, 1 << 40, np.int64) for name in COLUMNS} | {
        "have": np.zeros(n, np.int64)
    }
    assert len(pack([PacketBlock(b"", **columns)])) < n
