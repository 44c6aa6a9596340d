"""Feed many conversations in turns, as the engine does: all at once through their protocol, or each by itself."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from dissectors import frame_columns
from dissectors.conversation import Conversation, Protocol
from dissectors.options import Options
from dissectors.records import TABLES, Conn
from dissectors.sink import Sink
from dissectors.tcp.chunk import Chunk, Segments, Span
from dissectors.wire.codec_sums import counting

Script = list[tuple[int, bytes]]  # direction, bytes


def feed_many(
    protocol: Protocol,
    scripts: Sequence[Script],
    tables: Sequence[str],
    seed: int,
    *,
    at_once: bool,
    often: float = 0.7,
    midstream: bool = False,
    bodies_of: Sequence[str] = (),
) -> tuple[dict[str, list[str]], list[Conversation]]:
    """Play a script through each of many conversations, some bytes at a time: (rows by table, the conversations).

    Among the tables are what forensics learns: the batches with bad checksums, the checksums of compressed data.
    at_once: decode them together, now and then, from bytes that lie as in a block; else each after every piece.
    often: how likely each turn decodes. midstream: the connections began before the capture. bodies_of: the APIs whose
    exchanges have their bodies.
    """
    rng = random.Random(seed)
    options = Options(tables=tuple(tables))
    sink = Sink(tables, full=bool(bodies_of), bodies_of=bodies_of)
    sink.files = ["x.pcap"]
    sink.suspects = []
    conversations = [
        protocol.conversation(
            Conn("s", "10.0.0.2", 4000 + i, "10.0.0.1", protocol.ports[0], 0, protocol.name),
            sink,
            options,
            midstream=midstream,
        )
        for i in range(len(scripts))
    ]
    left, offsets, order = [list(script) for script in scripts], [[0, 0] for _ in scripts], itertools.count(1)
    turns = random.Random(seed + 1)
    with counting() as embedded:
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
                for (i, direction), event in _as_in_a_block(sent, turns):
                    conversations[i].receive(direction, event)
                if turns.random() < often:
                    protocol.advance(conversations)
            else:
                for (i, direction), chunks in sent.items():
                    for chunk in chunks:
                        conversations[i].receive(direction, chunk)
                for conversation in conversations:
                    conversation.advance()
        if at_once:
            protocol.advance(conversations)
        for conversation in conversations:
            conversation.end(1_700_000_000_000_000_000 + next(order) * 5_000_000)
        if at_once:
            protocol.prepare_finish(conversations)
        for conversation in conversations:
            conversation.finish()
    rows = {table: [repr(row) for row in batch.to_pylist()] for table, batch in sink.drain()}
    sums = sorted(
        repr((c.frames, c.framed_bytes, c.skipped_bytes, c.pending_bytes, c.summary())) for c in conversations
    )
    learned = {
        "counts": sums,
        "suspects": sorted(repr(suspect._replace(conn=suspect.conn.connection)) for suspect in sink.suspects),  # type: ignore[arg-type]
        "embedded": sorted(map(repr, embedded.items())) if "batches" in tables else [],
    }
    return {**{table: sorted(rows.get(table, [])) for table in TABLES}, **learned}, conversations


def assert_together_as_alone(
    protocol: Protocol,
    scripts: Sequence[Script],
    tables: Sequence[str],
    seed: int,
    *,
    often: float = 0.7,
    midstream: bool = False,
    bodies_of: Sequence[str] = (),
    worth: tuple[object, int] | None = None,
) -> list[Conversation]:
    """Conversations that are decoded together give the rows of each decoded alone; those that were together.

    worth: a module with the number of frames from which it decodes by column, and that number meanwhile.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frame_columns, "MANY", 1)
        if worth is not None:
            patch.setattr(worth[0], "_WORTH", worth[1])
        got, together = feed_many(
            protocol, scripts, tables, seed, at_once=True, often=often, midstream=midstream, bodies_of=bodies_of
        )
    want, _ = feed_many(protocol, scripts, tables, seed, at_once=False, midstream=midstream, bodies_of=bodies_of)
    for table, rows in want.items():
        assert got[table] == rows, table
    return together


def _as_in_a_block(
    sent: dict[tuple[int, int], list[Chunk]], rng: random.Random
) -> Iterator[tuple[tuple[int, int], Any]]:
    """The same bytes as the segments of spans, or, some of them, still as chunks."""
    every = [chunk for chunks in sent.values() for chunk in chunks]
    data = memoryview(b"".join(chunk.data for chunk in every))
    at = np.cumsum([0, *(len(chunk.data) for chunk in every)])
    columns = ([getattr(chunk, name)[0] for chunk in every] for name in ("orders", "packet_refs", "times"))
    segments = Segments(at, *(np.array(column, np.int64) for column in columns))
    first = 0
    for key, chunks in sent.items():
        last = first + len(chunks)
        if rng.random() < 0.8:
            yield key, Span(chunks[0].offset, data[at[first] : at[last]], segments, first, last)
        else:
            yield from ((key, chunk) for chunk in chunks)
        first = last
