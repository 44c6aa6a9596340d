"""The rows of open connections: made again for those that got packets, copied for the others."""

import pickle
import struct
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.compiling.saved_state import read_state
from dissectors.engine import Engine, end_all
from dissectors.limits import SHARES, Limits
from dissectors.options import Options
from dissectors.tcp.packed import Packer
from pipelines.storage.record_files import RecordWriter, TableFile
from pipelines.storage.tails import Untouched, copied
from tests.benchmarks import hostile

REQUEST = struct.pack(">ihhih", 16, 18, 0, 1, 6) + b"client"
AGAIN = struct.pack(">ihhih", 16, 18, 0, 2, 6) + b"client"
ANSWER = struct.pack(">iihihhh", 16, 1, 0, 1, 18, 0, 3)
TABLES = ("exchanges", "connections")
OPEN, NEWS = 200, 10
PACKETS = 6 * OPEN  # a handshake, two requests and an answer to the first, each
Rows = dict[str, list[dict[str, Any]]]


def rows(batches: Iterable[tuple[str, pa.RecordBatch]]) -> Rows:
    found: Rows = {table: [] for table in TABLES}
    for table, batch in batches:
        found[table] += batch.to_pylist()
    return found


def known(some: list[dict[str, Any]]) -> list[str]:
    """Rows in any order, without the names of their site and file."""
    return sorted(
        str({name: value for name, value in row.items() if "file" not in name and name != "site"}) for row in some
    )


def test_connections_without_news_are_neither_made_ready_nor_ended_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, limits = tmp_path / "open.pcap", Limits(block_packets=PACKETS - NEWS)
    hostile.open_connections(path, OPEN, [(0, REQUEST), (0, AGAIN), (1, ANSWER)], port=9092)
    before, after = Reader(str(path), 0, limits).blocks()
    engine = Engine(Options(tables=TABLES, limits=limits), [str(path)])
    engine.feed("", before)
    engine.decode()
    stay = list(engine.take_rows())
    engine.pack()
    state = pickle.dumps(engine)
    writer = RecordWriter(str(tmp_path / "tail"), "tail")
    for table, batch in end_all(engine):
        writer.write(table, batch)
    tail = [TableFile(file.table, str(tmp_path / "tail" / file.path)) for file in writer.close()]

    ready: list[bytes] = []
    unpack = Packer.unpack

    def counting(self: Packer, packed: bytes, *rest: Any) -> Any:
        ready.append(packed)
        return unpack(self, packed, *rest)

    monkeypatch.setattr(Packer, "unpack", counting)
    engine = read_state(state)
    packed = engine.packed("")
    engine.feed("", after)
    engine.decode()
    stay += engine.take_rows()
    engine.pack()
    untouched = Untouched.since(packed, engine, "")
    assert (len(packed), len(untouched.keys)) == (OPEN, OPEN - NEWS)
    engine.leave_out("", untouched.keys)
    ended = rows(end_all(engine))
    assert len(ended["connections"]) == NEWS
    assert len(ready) == 2 * NEWS  # for their packets, and for their end
    kept = rows(copied(tail, untouched))
    assert sum(row["kind"] == "unanswered" for row in kept["exchanges"]) == OPEN - NEWS
    whole = dissectors.dissect([path], tables=list(TABLES))
    for table in TABLES:
        made = [*rows(stay)[table], *ended[table], *kept[table]]
        assert known(made) == known(whole[table].to_pylist())


def test_rows_about_no_connection_are_not_copied(tmp_path: Path) -> None:
    path = tmp_path / "open.pcap"
    hostile.open_connections(path, SHARES + 100, [(0, REQUEST)], port=9092)
    limits = Limits(flows=SHARES)
    engine = Engine(Options(tables=("findings",), limits=limits), [str(path)])
    for block in Reader(str(path), 0, limits).blocks():
        engine.feed("", block)
    engine.decode()
    engine.pack()
    copy = read_state(pickle.dumps(engine))
    untouched = Untouched.since(copy.packed(""), copy, "")
    assert untouched.keys
    writer = RecordWriter(str(tmp_path / "tail"), "tail")
    for table, batch in end_all(engine):
        writer.write(table, batch)
    tail = [TableFile(file.table, str(tmp_path / "tail" / file.path)) for file in writer.close()]
    assert any(row["kind"] == "limit" for _, batch in end_all(copy) for row in batch.to_pylist())
    assert not any(row["kind"] == "limit" for _, batch in copied(tail, untouched) for row in batch.to_pylist())
