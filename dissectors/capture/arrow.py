"""PacketBlock as Arrow record batches, for Spark: only types that a Spark schema knows, addresses as text.

One row a TCP packet, with its payload. `order_ns` is the block's clock: packets of a site are ordered by
(order_ns, file, packet). `flow` names the connection whatever the direction, so that a shuffle by (site, flow) brings
both directions together. A row with a `note` is no packet: it tells of a file that could not be read whole.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from dissectors.capture.block import PacketBlock, address, address_halves

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


def to_arrow(block: PacketBlock, files: Sequence[str], sites: Sequence[str]) -> pa.RecordBatch:
    """A block as SEGMENTS. files, sites: the name and the site of each file index."""
    buffer = memoryview(block.buffer)
    offsets = np.zeros(len(block) + 1, np.int32)
    np.cumsum(block.have, out=offsets[1:])
    data = b"".join([
        buffer[a:b] for a, b in zip(block.at.tolist(), (block.at + block.have).tolist(), strict=True)
    ])  # fmt: skip
    payload = pa.BinaryArray.from_buffers(pa.binary(), len(block), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
    src = _addresses(block.src_hi, block.src_lo)
    dst = _addresses(block.dst_hi, block.dst_lo)
    file = pa.array(block.file)
    columns = [
        pa.array(sites, pa.string()).take(file),
        pa.array(files, pa.string()).take(file),
        pa.array(block.number),
        pa.array(block.time // 1000).cast(pa.timestamp("us", "UTC")),
        pa.array(block.time),
        pa.array(block.clock),
        pa.array(block.length),
        _flows(src, block.sport, dst, block.dport),
        src,
        pa.array(block.sport),
        dst,
        pa.array(block.dport),
        pa.array(block.seq),
        pa.array(block.ack),
        pa.array(block.flags),
        pa.array(block.window),
        pa.array(block.ip_id),
        pa.array(block.check),
        pa.array(block.via),
        pa.array(block.size),
        payload,
        pa.nulls(len(block), pa.string()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SEGMENTS)


def note(file: str, site: str, text: str) -> pa.RecordBatch:
    """A row that tells something about a file."""
    row = dict.fromkeys(SEGMENTS.names) | {"site": site, "file": file, "note": text, "flow": "", "packet": 0}
    return pa.RecordBatch.from_pylist([row], schema=SEGMENTS)


def from_arrow(batch: pa.RecordBatch, files: list[str]) -> PacketBlock:
    """The block again, from rows without a note. `files` grows by the names that it does not hold yet."""
    payload = batch.column("payload")
    _, offsets_buffer, data = payload.buffers()
    start = payload.offset
    offsets = np.frombuffer(offsets_buffer, np.int32)[start : start + len(payload) + 1].astype(np.int64)
    src_hi, src_lo = _halves(batch.column("src_ip"))
    dst_hi, dst_lo = _halves(batch.column("dst_ip"))
    names = batch.column("file").dictionary_encode()
    known = {name: i for i, name in enumerate(files)}
    for name in names.dictionary.to_pylist():
        if name not in known:
            known[name] = len(files)
            files.append(name)
    index = np.array([known[name] for name in names.dictionary.to_pylist()], np.int64)[names.indices.to_numpy()]
    ints = {
        name: batch.column(name).to_numpy()
        for name in ("packet", "time_ns", "order_ns", "length", "src_port", "dst_port", "seq", "ack", "flags",
                     "window", "ip_id", "checksum", "via", "payload_bytes")
    }  # fmt: skip
    return PacketBlock(
        memoryview(data) if data is not None else b"",
        index,
        ints["packet"],
        ints["time_ns"],
        ints["order_ns"],
        ints["length"],
        src_hi,
        src_lo,
        dst_hi,
        dst_lo,
        ints["src_port"],
        ints["dst_port"],
        ints["seq"],
        ints["ack"],
        ints["flags"],
        ints["window"],
        ints["ip_id"],
        ints["checksum"],
        offsets[:-1],
        ints["payload_bytes"],
        np.diff(offsets),
        ints["via"],
    )


def _addresses(hi: npt.NDArray[np.uint64], lo: npt.NDArray[np.uint64]) -> pa.StringArray:
    pairs, index = np.unique(np.stack([hi, lo], axis=1), axis=0, return_inverse=True)
    texts = [address(a, b) for a, b in pairs.tolist()]
    return pa.array(texts, pa.string()).take(pa.array(index.reshape(-1)))


def _halves(texts: pa.StringArray) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    encoded = texts.dictionary_encode()
    halves = np.array([address_halves(t) for t in encoded.dictionary.to_pylist()], np.uint64).reshape(-1, 2)
    picked = halves[encoded.indices.to_numpy()]
    return picked[:, 0].copy(), picked[:, 1].copy()


def _flows(src: pa.StringArray, sport: object, dst: pa.StringArray, dport: object) -> pa.StringArray:
    a = pc.binary_join_element_wise(src, pa.array(sport).cast(pa.string()), " ")
    b = pc.binary_join_element_wise(dst, pa.array(dport).cast(pa.string()), " ")
    return pc.binary_join_element_wise(pc.min_element_wise(a, b), pc.max_element_wise(a, b), "-")
