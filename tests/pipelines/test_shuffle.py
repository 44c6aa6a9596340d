"""Pieces come to the parts that they are for, whole and in order, wherever the files lie."""

from __future__ import annotations

import random
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import pytest

from pipelines.jobs import shuffle
from pipelines.jobs.shuffle import ENDS, EVERY, FRAGMENTS, PACKETS, SECRETS, CutPiece, Index, PieceFile, joined
from pipelines.storage import filesystem

Cut = list[tuple[int, CutPiece]]  # part, piece


def written(folder: Path, cuts: list[Cut]) -> Index:
    indexes = []
    for number, pieces in enumerate(cuts):
        with (folder / f"{number}.packets").open("wb") as stream:
            file = PieceFile(stream)
            for part, piece in pieces:
                file.write(part, piece)
        indexes.append(file.index(f"{number}.packets"))
    return joined(indexes)


def of_parts(index: Index, root: str, parts: int) -> dict[int, list[CutPiece]]:
    found = {}
    for part, some in index.by_part(parts):
        pieces = some.pieces(partial(filesystem.ranges, root))
        found[part] = [piece._replace(data=bytes(piece.data)) for piece in pieces]
    return found


@pytest.mark.parametrize("scheme", ["", "file://", "local://"])
@pytest.mark.parametrize("at_once", [1, 100, 1 << 20])
def test_every_part_gets_its_pieces_by_site_kind_and_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scheme: str, at_once: int
) -> None:
    monkeypatch.setattr(shuffle, "_READ_BYTES", at_once)
    rng = random.Random(at_once)
    cuts: list[Cut] = [
        [
            (
                rng.choice([EVERY, 0, 1, 4]),
                CutPiece(rng.choice("cab"), rng.choice([SECRETS, ENDS, PACKETS]), n * 100 + k, rng.randbytes(n + k)),
            )
            for k in rng.sample(range(40), 30)
        ]
        for n in range(5)
    ]
    found = of_parts(written(tmp_path, cuts), f"{scheme}{tmp_path}", 5)
    assert sorted(found) == [0, 1, 4]
    for part, pieces in found.items():
        mine = [piece for cut in cuts for to, piece in cut if to in (EVERY, part)]
        assert pieces == sorted(mine, key=lambda piece: (piece.site, piece.kind, piece.first))


def test_fragments_go_to_parts_without_packets_too(tmp_path: Path) -> None:
    for kind, parts in ((SECRETS, [2]), (FRAGMENTS, [0, 1, 2])):
        index = written(tmp_path, [[(EVERY, CutPiece("a", kind, 0, b"all")), (2, CutPiece("a", PACKETS, 0, b"one"))]])
        assert sorted(of_parts(index, str(tmp_path), 3)) == parts


def test_neighbours_in_a_file_are_read_at_once(tmp_path: Path) -> None:
    cuts: list[Cut] = [[(part, CutPiece(site, PACKETS, 7, b"12345")) for part in (0, 1) for site in "abc"]]
    asked: list[list[tuple[str, int, int]]] = []

    def fetch(ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        asked.append(list(ranges))
        return filesystem.ranges(str(tmp_path), ranges)

    for _, index in written(tmp_path, cuts).by_part(2):
        assert [(piece.site, bytes(piece.data)) for piece in index.pieces(fetch)] == [(s, b"12345") for s in "abc"]
    assert asked == [[("0.packets", 0, 15)], [("0.packets", 15, 15)]]


def test_nothing_was_cut() -> None:
    assert list(joined([]).by_part(3)) == []


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_a_file_that_is_gone_or_shorter_is_named(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "short").write_bytes(b"123")
    for name in ("short", "gone"):
        with pytest.raises(filesystem.StorageError, match="cannot be read"):
            filesystem.ranges(f"{scheme}{tmp_path}", [(name, 1, 5)])
