"""Decoding many connections together gives the rows of decoding each alone, and is what mostly happens."""

from __future__ import annotations

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors import frame_columns
from dissectors.conversation import Conversation
from dissectors.engine import Engine
from dissectors.kafka import orphaned_fetches
from dissectors.kafka.conversation import KafkaConversation
from dissectors.options import Options
from dissectors.pulsar.conversation import PulsarConversation
from dissectors.records import DEFAULT_TABLES, TABLES
from dissectors.run import Run
from dissectors.sink import Suspect
from dissectors.wire.codec_sums import counting

SAMPLES = sorted((Path(__file__).parent.parent / "samples").glob("*.pcap*"))
BY_COLUMN = [path for path in SAMPLES if not path.name.startswith("iggy")]
TABLE_SETS = [("exchanges",), ("batches",), DEFAULT_TABLES, tuple(TABLES)]
REGULAR: list[tuple[str, type[Conversation]]] = [
    ("kafka-codecs", KafkaConversation),
    ("pulsar-subscriptions", PulsarConversation),
]


def decode(path: Path) -> list[Suspect]:
    """What is kept of the batches with bad checksums in a capture."""
    run = Run([str(path)], Options())
    run.suspects = []
    for _ in run.records():
        pass
    return run.suspects


@pytest.mark.parametrize("path", BY_COLUMN, ids=lambda p: p.stem)
@pytest.mark.parametrize("tables", TABLE_SETS, ids=len)
def test_captures_give_the_same_rows_together_and_one_by_one(
    path: Path, tables: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> dict[str, list[Any]]:
        return {
            name: sorted(map(repr, table.to_pylist())) for name, table in dissectors.dissect([path], tables).items()
        }

    monkeypatch.setattr(frame_columns, "MANY", 1 << 30)
    monkeypatch.setattr(frame_columns, "MUCH", 1 << 60)
    monkeypatch.setattr(orphaned_fetches, "_WORTH", 1 << 30)
    want = rows()
    monkeypatch.setattr(frame_columns, "MANY", 1)
    monkeypatch.setattr(orphaned_fetches, "_WORTH", 1)
    monkeypatch.setattr("dissectors.kafka.exchange_columns._WORTH", 2)
    assert rows() == want


@pytest.mark.parametrize("path", BY_COLUMN, ids=lambda p: p.stem)
def test_forensics_learns_the_same_together_and_one_by_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def learned() -> tuple[list[Suspect], Counter[tuple[str, str]]]:
        with counting() as sums:
            suspects = decode(path)
        return sorted(suspect._replace(conn=None) for suspect in suspects), +sums  # type: ignore[arg-type]

    monkeypatch.setattr(frame_columns, "MANY", 1 << 30)
    monkeypatch.setattr(frame_columns, "MUCH", 1 << 60)
    want = learned()
    monkeypatch.setattr(frame_columns, "MANY", 1)
    monkeypatch.setattr("dissectors.kafka.exchange_columns._WORTH", 1)
    assert learned() == want
    assert want[1] or "codecs" not in path.name


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_bodies_of_named_apis_are_those_that_full_gives(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frame_columns, "MANY", 1)

    def rows(options: Options) -> list[dict[str, Any]]:
        return [row for _, batch in Run([str(path)], options).records() for row in batch.to_pylist()]

    whole = rows(Options(("exchanges",), full=True))
    some = sorted({row["api"] or "" for row in whole})[::2]
    for row in whole:
        if row["api"] not in some:
            row["request"] = row["response"] = None
    assert rows(Options(("exchanges",), full=True, bodies_of=tuple(some))) == whole


@pytest.mark.parametrize(("stem", "kind"), REGULAR, ids=lambda value: value if isinstance(value, str) else "")
def test_nine_tenths_of_the_frames_of_a_regular_capture_go_by_column(
    stem: str, kind: type[Conversation], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where bad checksums are to be looked into, as `analyze` does."""
    counts = []
    close = kind.on_close

    def count(self: Any) -> None:
        counts.append((self.by_column, self.frames))
        close(self)

    monkeypatch.setattr(kind, "on_close", count)
    monkeypatch.setattr(frame_columns, "MANY", 1)
    monkeypatch.setattr("dissectors.kafka.exchange_columns._WORTH", 1)
    for path in SAMPLES:
        if path.name.startswith(stem):
            decode(path)
    by_column, frames = (sum(column) for column in zip(*counts, strict=True))
    assert by_column >= 0.9 * frames


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("many", [1, 1 << 30], ids=["together", "one by one"])
def test_what_was_decoded_needs_no_garbage_collector(path: Path, many: int, monkeypatch: pytest.MonkeyPatch) -> None:
    garbage: list[str] = []
    decode = Engine.decode

    def look(self: Engine) -> None:
        gc.collect()
        decode(self)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        garbage.extend(type(one).__module__ for one in gc.garbage)
        gc.garbage.clear()

    monkeypatch.setattr(Engine, "decode", look)
    monkeypatch.setattr(frame_columns, "MANY", many)
    monkeypatch.setattr(frame_columns, "MUCH", 1 << 60)
    dissectors.dissect([path], DEFAULT_TABLES)
    assert not [module for module in garbage if module.startswith(("dissectors", "numpy", "pyarrow"))]
