"""The tail of a part: rows that the end of the captures makes of connections which are open there.

An update replaces it. Most connections of a lake got no packet since the last time: their rows stay, and are copied.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.capture.block import address
from dissectors.engine import Engine
from dissectors.records import endpoint
from dissectors.tcp.keys import ends_of
from dissectors.tcp.packed import Packed
from pipelines.storage.record_files import TableFile, rows_of


class Tail(NamedTuple):
    """Where the last one is."""

    records: list[TableFile]
    open: list[TableFile]  # rows in which names are not known for good, as they were decoded


class Untouched(NamedTuple):
    """Connections of a site for which nothing came since their engine was loaded."""

    keys: list[bytes]
    names: pa.Array  # as `_names` makes them of their rows

    @classmethod
    def since(cls, before: Mapping[bytes, bytes], engine: Engine, site: str) -> Untouched:
        """Those that are packed as they were before."""
        now = engine.packed(site)
        keys = [key for key, packed in before.items() if now.get(key) is packed]
        return cls(keys, pa.array([name for key in keys for name in _names_of(key, now[key])], pa.string()))


def copied(files: Iterable[TableFile], untouched: Untouched) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of a tail that are about these connections."""
    if not untouched.keys:
        return
    for table, url in files:
        for batch in rows_of(url):
            yield table, batch.filter(pc.is_in(_names(batch), untouched.names))


def _names_of(key: bytes, packed: bytes) -> tuple[str, str]:
    """What a packed connection may be called: which end is the client is not asked of it."""
    a_hi, a_lo, a_port, b_hi, b_lo, b_port = ends_of(key)
    a, b = endpoint(address(a_hi, a_lo), a_port), endpoint(address(b_hi, b_lo), b_port)
    incarnation = Packed.of(packed).incarnation
    return f"{a}>{b} {incarnation}", f"{b}>{a} {incarnation}"


def _names(batch: pa.RecordBatch) -> pa.Array:
    """The connection and incarnation of each row; null where it is about none."""
    return pc.binary_join_element_wise(
        batch.column("connection").cast(pa.string()), batch.column("incarnation").cast(pa.string()), " "
    )
