"""PacketBlock as Arrow record batches, for Spark: only types that a Spark schema knows, addresses as text.

One row a TCP packet, with its payload. `order_ns` is the block's clock: packets of a site are ordered by
(order_ns, file, packet). `flow` names the connection whatever the direction: both directions have the same. A row with
a `note` is no packet: it is about a file that could not be read whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dissectors.capture.block import PacketBlock, address

_INT = pa.int64()
SEGMENTS = pa.schema([
    ("site", pa.string()),
    ("file", pa.string()),
    ("packet", _INT),
    ("time", pa.timestamp("us", "UTC")),
    ("time_ns", _INT),
    ("order_ns", _INT),
    ("length", _INT),
    ("flow", pa.string()),
    ("src_ip", pa.string()),
    ("src_port", _INT),
    ("dst_ip", pa.string()),
    ("dst_port", _INT),
    ("seq", _INT),
    ("ack", _INT),
    ("flags", _INT),
    ("window", _INT),
    ("ip_id", _INT),
    ("checksum", _INT),
    ("via", _INT),
    ("payload_bytes", _INT),
    ("payload", pa.binary()),
    ("note", pa.string()),
])  # fmt: skip


def to_arrow(
    block: PacketBlock, files: Sequence[str], sites: Sequence[str], names: Sequence[str] = SEGMENTS.names
) -> pa.RecordBatch:
    """A block as columns of SEGMENTS. files, sites: the name and the site of each file index; names: of the columns."""
    src = cache(lambda: _addresses(block.src_hi, block.src_lo))
    dst = cache(lambda: _addresses(block.dst_hi, block.dst_lo))
    file = pa.array(block.file)
    make: dict[str, Callable[[], pa.Array]] = {
        "site": lambda: pa.array(sites, pa.string()).take(file),
        "file": lambda: pa.array(files, pa.string()).take(file),
        "packet": lambda: pa.array(block.number),
        "time": lambda: pa.array(block.time // 1000, pa.timestamp("us", "UTC"), mask=block.time < 0),
        "time_ns": lambda: pa.array(block.time),
        "order_ns": lambda: pa.array(block.clock),
        "length": lambda: pa.array(block.length),
        "flow": lambda: _flows(src(), block.sport, dst(), block.dport),
        "src_ip": src,
        "src_port": lambda: pa.array(block.sport),
        "dst_ip": dst,
        "dst_port": lambda: pa.array(block.dport),
        "seq": lambda: pa.array(block.seq),
        "ack": lambda: pa.array(block.ack),
        "flags": lambda: pa.array(block.flags),
        "window": lambda: pa.array(block.window),
        "ip_id": lambda: pa.array(block.ip_id),
        "checksum": lambda: pa.array(block.check),
        "via": lambda: pa.array(block.via),
        "payload_bytes": lambda: pa.array(block.size),
        "payload": lambda: _payloads(block),
        "note": lambda: pa.nulls(len(block), pa.string()),
    }
    return pa.RecordBatch.from_arrays([make[name]() for name in names], schema=_schema(names))


def _schema(names: Sequence[str]) -> pa.Schema:
    return pa.schema([SEGMENTS.field(name) for name in names])


def _payloads(block: PacketBlock) -> pa.BinaryArray:
    """The payload of each packet, as far as it was kept."""
    buffer = memoryview(block.buffer)
    offsets = np.zeros(len(block) + 1, np.int32)
    np.cumsum(block.have, out=offsets[1:])
    data = b"".join([
        buffer[a:b] for a, b in zip(block.at.tolist(), (block.at + block.have).tolist(), strict=True)
    ])  # fmt: skip
    return pa.BinaryArray.from_buffers(pa.binary(), len(block), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


def note(file: str, site: str, text: str, names: Sequence[str] = SEGMENTS.names) -> pa.RecordBatch:
    """A row with a note about a file, as columns of SEGMENTS."""
    row = dict.fromkeys(SEGMENTS.names) | {"site": site, "file": file, "note": text, "flow": "", "packet": 0}
    return pa.RecordBatch.from_pylist([row], schema=_schema(names))


def _addresses(hi: npt.NDArray[np.uint64], lo: npt.NDArray[np.uint64]) -> pa.StringArray:
    pairs, index = np.unique(np.stack([hi, lo], axis=1), axis=0, return_inverse=True)
    texts = [address(a, b) for a, b in pairs.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(index.reshape(-1)))


def _flows(src: pa.StringArray, sport: object, dst: pa.StringArray, dport: object) -> pa.StringArray:
    a = pc.binary_join_element_wise(src, pa.array(sport).cast(pa.string()), " ")
    b = pc.binary_join_element_wise(dst, pa.array(dport).cast(pa.string()), " ")
    return pc.binary_join_element_wise(pc.min_element_wise(a, b), pc.max_element_wise(a, b), "-")
