"""Feed many conversations in turns, as the engine does: all together now and then, or each after every piece."""

import itertools
import random
from collections.abc import Iterator, Sequence
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES, TABLES, Conn
from dissectors.rows.sink import Sink
from dissectors.session.conversation import Protocol
from dissectors.tcp.chunk import Chunk, joined
from dissectors.wire.codec_sums import counting

Script = list[tuple[int, bytes]]  # direction, bytes
TABLE_SETS = [("exchanges",), ("batches",), DEFAULT_TABLES, tuple(TABLES)]
INHERITED = [HealthCheck.differing_executors]


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
) -> dict[str, list[str]]:
    """Play a script through each of many conversations, some bytes at a time: rows by table.

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
                    chunk = Chunk.of(offset, data[:cut], [offset], [n], [n], [time])
                    sent.setdefault((i, direction), []).append(chunk)
                    offsets[i][direction] += cut
                    script[0] = (direction, data[cut:])
                    if not script[0][1]:
                        script.pop(0)
            if at_once:
                for (i, direction), event in _as_in_a_block(sent, turns):
                    conversations[i].receive(direction, event)
                if turns.random() < often:
                    for conversation in conversations:
                        conversation.advance()
            else:
                for (i, direction), chunks in sent.items():
                    for chunk in chunks:
                        conversations[i].receive(direction, chunk)
                for conversation in conversations:
                    conversation.advance()
        if at_once:
            for conversation in conversations:
                conversation.advance()
        for conversation in conversations:
            conversation.end(1_700_000_000_000_000_000 + next(order) * 5_000_000)
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
    return {**{table: sorted(rows.get(table, [])) for table in TABLES}, **learned}


def assert_together_as_alone(
    protocol: Protocol,
    scripts: Sequence[Script],
    tables: Sequence[str],
    seed: int,
    *,
    often: float = 0.7,
    midstream: bool = False,
    bodies_of: Sequence[str] = (),
) -> None:
    """Conversations that are decoded together give the rows of each decoded alone."""
    got = feed_many(
        protocol, scripts, tables, seed, at_once=True, often=often, midstream=midstream, bodies_of=bodies_of
    )
    want = feed_many(protocol, scripts, tables, seed, at_once=False, midstream=midstream, bodies_of=bodies_of)
    for table, rows in want.items():
        assert got[table] == rows, table


class TogetherAsAlone:
    """What every protocol promises of many connections at once; its tests inherit this."""

    protocol: ClassVar[Protocol]

    apis: ClassVar[Sequence[str]]
    """Some of which bodies may be asked for."""

    differed: ClassVar[Sequence[tuple[int, int]]] = ()
    """Seeds and numbers of connections whose rows once differed."""

    @staticmethod
    def conversation(rng: random.Random) -> Script:
        """What one connection carries."""
        raise NotImplementedError

    @pytest.mark.parametrize("tables", TABLE_SETS, ids=len)
    @settings(max_examples=60, suppress_health_check=INHERITED)
    @given(seed=st.integers(0, 1 << 32), many=st.integers(1, 9), often=st.sampled_from((0.1, 0.7)))
    def test_connections_at_once_give_the_rows_of_each_alone(
        self, tables: tuple[str, ...], seed: int, many: int, often: float
    ) -> None:
        self._check(tables, seed, many, often)

    @pytest.mark.parametrize("tables", TABLE_SETS, ids=len)
    @pytest.mark.parametrize("often", [0.1, 0.7])
    def test_connections_that_once_differed(self, tables: tuple[str, ...], often: float) -> None:
        for seed, many in self.differed:
            self._check(tables, seed, many, often)

    def _check(self, tables: tuple[str, ...], seed: int, many: int, often: float) -> None:
        assert_together_as_alone(self.protocol, self._scripts(seed, many)[1], tables, seed, often=often)

    @settings(max_examples=30, suppress_health_check=INHERITED)
    @given(seed=st.integers(0, 1 << 32), many=st.integers(1, 4))
    def test_bodies_of_some_apis_do_not_change_the_rows_of_others(self, seed: int, many: int) -> None:
        rng, scripts = self._scripts(seed, many)
        assert_together_as_alone(self.protocol, scripts, DEFAULT_TABLES, seed, bodies_of=rng.sample(self.apis, 2))

    def _scripts(self, seed: int, many: int) -> tuple[random.Random, list[Script]]:
        rng = random.Random(seed)
        return rng, [self.conversation(rng) for _ in range(many)]


def _as_in_a_block(
    sent: dict[tuple[int, int], list[Chunk]], rng: random.Random
) -> Iterator[tuple[tuple[int, int], Chunk]]:
    """All segments of a direction as one chunk, or, of some directions, each by itself."""
    for key, chunks in sent.items():
        yield from ((key, chunk) for chunk in ([joined(chunks)] if rng.random() < 0.8 else chunks))
