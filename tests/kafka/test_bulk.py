"""Many connections at once give the rows that each alone gives."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dissectors
from dissectors.kafka import PROTOCOL, bulk
from dissectors.options import Options
from dissectors.records import TABLES, Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Segments, Span
from tests.kafka.wire import any_body, batch, fetch, fetched, produce, produced, record, request, response

SAMPLES = sorted((Path(__file__).parent.parent.parent / "samples").glob("*kafka*.pcap*"))
TWO = batch([record(0, b"k", b"v"), record(1, None, None)])
APIS = [(18, 3), (3, 9), (12, 4), (3, 1), (10, 3), (11, 5), (8, 8), (17, 1), (2, 7)]
Script = list[tuple[int, bytes]]


def exchange(rng: random.Random, id_: int) -> tuple[bytes, bytes | None]:
    """A request, and its answer if it has one."""
    kind = rng.randrange(8)
    if kind == 0:
        return produce(id_, {("t", rng.randrange(3)): TWO}, acks=0), None
    if kind == 1:
        return produce(id_, {("t", 0): TWO, ("u", 1): TWO}), produced(id_, [("t", 0, rng.choice((0, 0, 6)), 5)])
    if kind == 2:
        return fetched_in_session(rng, id_)
    if kind == 3 and rng.random() < 0.1:
        return request(999, 1, id_, b"what"), response(3, 1, id_, b"\0\0\0")
    key, version = rng.choice(APIS)
    from dissectors.kafka.decode import spoken

    api = spoken(key, version).api
    seed = rng.randrange(4)
    asked, answered = any_body(f"{api}Request", version, seed), any_body(f"{api}Response", version, seed)
    client = rng.choice(("tester", "tester", "", None))
    return request(key, version, id_, asked, client), response(key, version, id_, answered)


def fetched_in_session(rng: random.Random, id_: int) -> tuple[bytes, bytes]:
    """A Fetch of a session that begins, goes on, changes or ends, and its answer."""
    session = rng.choice(((0, -1), (0, 0), (5, 1), (5, 2), (5, 1), (6, 1), (5, -1)))
    wanted = rng.choice(([], [("t", [0])], [("t", [0, 1]), ("u", [2])]))
    forgotten = rng.choice(([], [], [("t", [1])]))
    asked = fetch(id_, wanted, session, forgotten=forgotten, wait=rng.choice((0, 100, 500)))
    sets = rng.choice(({}, {("t", 0): TWO}, {("t", 0): TWO + TWO, ("u", 2): TWO[:-3]}, {("t", 1): b"broken"}))
    return asked, fetched(id_, sets, rng.choice((0, 5, 5, 6)), rng.choice((0, 0, 0, 0, 70)))


def conversation(rng: random.Random) -> Script:
    """What one connection carries: mostly exchanges one after the other, now and then pipelined or unanswered."""
    script: Script = []
    owed: list[bytes] = []
    for id_ in range(1, rng.randrange(2, 20)):
        asked, answered = exchange(rng, id_)
        script.append((CLIENT, asked))
        if answered is not None and rng.random() > 0.02:
            owed.append(answered)
        while owed and rng.random() < 0.8:
            script.append((SERVER, owed.pop(0)))
    script += [(SERVER, answer) for answer in owed if rng.random() < 0.9]
    if rng.random() < 0.1:
        script.insert(rng.randrange(len(script)), (rng.choice((CLIENT, SERVER)), b"these bytes are no frame"))
    return script


def told(scripts: list[Script], tables: tuple[str, ...], seed: int, *, at_once: bool) -> dict[str, list[str]]:
    """The rows of connections that are fed in turns, some bytes at a time."""
    rng = random.Random(seed)
    options = Options(tables=tables)
    sink = Sink(tables)
    sink.files = ["x.pcap"]
    talks = [
        PROTOCOL.conversation(
            Conn("s", "10.0.0.2", 4000 + i, "10.0.0.1", 9092, 0, "kafka"), sink, options, midstream=False
        )
        for i in range(len(scripts))
    ]
    left, offsets, order = [list(script) for script in scripts], [[0, 0] for _ in scripts], itertools.count(1)
    turns = random.Random(seed + 1)
    while any(left):
        sent: dict[tuple[int, int], list[Chunk]] = {}
        for i, script in enumerate(left):
            for _ in range(rng.randrange(6)):
                if not script:
                    break
                direction, data = script[0]
                cut = len(data) if rng.random() < 0.8 else rng.randrange(1, len(data) + 1)
                n = next(order)
                offset = offsets[i][direction]
                time = 1_700_000_000_000_000_000 + n * 5_000_000
                chunk = Chunk(offset, data[:cut], [offset], [n], [n], [time])
                sent.setdefault((i, direction), []).append(chunk)
                offsets[i][direction] += cut
                script[0] = (direction, data[cut:])
                if not script[0][1]:
                    script.pop(0)
        if at_once:
            for (i, direction), event in as_spans(sent, turns):
                talks[i].receive(direction, event)
            if turns.random() < 0.7:
                PROTOCOL.advance(talks)  # type: ignore[arg-type]
        else:
            for (i, direction), chunks in sent.items():
                for chunk in chunks:
                    talks[i].receive(direction, chunk)
            for talk in talks:
                talk.advance()
    for talk in talks:
        talk.close()
    rows = {table: [repr(row) for row in rows.to_pylist()] for table, rows in sink.drain()}
    sums = sorted(repr((t.frames, t.framed_bytes, t.skipped_bytes, t.pending_bytes, t.summary())) for t in talks)
    return {**{table: sorted(rows.get(table, [])) for table in TABLES}, "counts": sums}


def as_spans(sent: dict[tuple[int, int], list[Chunk]], rng: random.Random) -> Iterator[tuple[tuple[int, int], Any]]:
    """The same bytes as they lie in a block: some as the segments of one span, some still apart."""
    every = [chunk for chunks in sent.values() for chunk in chunks]
    data = memoryview(b"".join(chunk.data for chunk in every))
    at = np.cumsum([0, *(len(chunk.data) for chunk in every)])
    columns = ([getattr(chunk, name)[0] for chunk in every] for name in ("orders", "places", "times"))
    segments = Segments(at, *(np.array(column, np.int64) for column in columns))
    first = 0
    for key, chunks in sent.items():
        last = first + len(chunks)
        if rng.random() < 0.8:
            yield key, Span(chunks[0].offset, data[at[first] : at[last]], segments, first, last)
        else:
            yield from ((key, chunk) for chunk in chunks)
        first = last


@pytest.mark.parametrize("tables", [("exchanges",), ("exchanges", "errors"), tuple(TABLES)])
@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32), many=st.integers(1, 9))
def test_connections_at_once_give_the_rows_of_each_alone(tables: tuple[str, ...], seed: int, many: int) -> None:
    rng = random.Random(seed)
    scripts = [conversation(rng) for _ in range(many)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bulk, "_MANY", 1)
        patch.setattr(bulk, "_WORTH", 1 + seed % 8)
        got = told(scripts, tables, seed, at_once=True)
    want = told(scripts, tables, seed, at_once=False)
    for table, rows in want.items():
        assert got[table] == rows, table


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("tables", [["exchanges"], ["exchanges", "batches", "errors", "connections", "findings"]])
def test_captures_give_the_same_rows_at_once_and_one_by_one(
    path: Path, tables: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> dict[str, list[Any]]:
        return {
            name: sorted(map(repr, table.to_pylist())) for name, table in dissectors.dissect([path], tables).items()
        }

    monkeypatch.setattr(bulk, "_MANY", 1 << 30)
    monkeypatch.setattr(bulk, "_MUCH", 1 << 60)
    want = rows()
    monkeypatch.setattr(bulk, "_MANY", 1)
    monkeypatch.setattr(bulk, "_WORTH", 2)
    assert rows() == want
