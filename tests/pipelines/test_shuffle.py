"""Pieces come to the parts that they are for, whole and in order, wherever the files lie."""

import random
from collections.abc import Sequence
from functools import partial
from io import BytesIO
from pathlib import Path

import pytest

from pipelines.jobs import shuffle
from pipelines.jobs.shuffle import (
    ENDS,
    EVERY,
    FRAGMENTS,
    PACKETS,
    SECRETS,
    Bounds,
    CutPiece,
    Fetch,
    PieceFile,
    Spill,
    blocks_of,
    framed,
    index_bytes,
    joined,
    read_indexes,
    read_place,
    write_places,
)
from pipelines.storage import filesystem

Cut = list[tuple[int, CutPiece]]  # part, piece


ALL = range(3)  # parts of "c"; all other capture points have five
ENDING = (".index", ".packets")


def parts_of(site: str) -> range:
    return ALL if site == "c" else range(5)


def written(folder: Path, cuts: list[Cut], *, spilled: bool = False) -> list[Bounds]:
    found = []
    for number, pieces in enumerate(cuts):
        with (folder / f"{number}.packets").open("wb") as stream, (folder / "spill").open("w+b") as room:
            file, spill = PieceFile(stream), Spill(room)
            for part, piece in pieces:
                (spill if spilled else file).write(part, piece)
            spill.into(file)
        bounds, data = index_bytes(str(number), file.index(f"{number}.packets"))
        (folder / f"{number}.index").write_bytes(data)
        found.append(bounds)
    return found


def of_parts(folder: Path, cuts: list[Bounds], fetch: Fetch, *ranges: range) -> dict[int, list[CutPiece]]:
    found = {}
    for parts in ranges:
        with (folder / "places").open("wb") as file:
            places = write_places("places", file, read_indexes(cuts, parts, fetch, ENDING).by_part(parts, parts_of))
        for place in places:
            index = read_place(place, fetch)
            assert place.size == index.size
            found[place.part] = [p._replace(data=bytes(p.data)) for p in index.pieces(fetch)]
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
    fetch = partial(filesystem.ranges, f"{scheme}{tmp_path}")
    found = of_parts(tmp_path, written(tmp_path, cuts), fetch, range(1), range(1, 3), range(3, 5))
    assert sorted(found) == [0, 1, 4]
    for part, pieces in found.items():
        mine = [piece for cut in cuts for to, piece in cut if part in _meant(to, piece)]
        assert pieces == sorted(mine, key=lambda piece: (piece.site, piece.kind, piece.first))


def _meant(to: int, piece: CutPiece) -> range:
    if to != EVERY:
        return range(to, to + 1)
    return range(5) if piece.kind == SECRETS else parts_of(piece.site)


def test_fragments_go_to_parts_of_their_capture_point_without_packets_too(tmp_path: Path) -> None:
    fetch = partial(filesystem.ranges, str(tmp_path))
    for site, kind, parts in (("a", SECRETS, [2]), ("a", FRAGMENTS, [0, 1, 2, 3, 4]), ("c", FRAGMENTS, [0, 1, 2])):
        cut = [(EVERY, CutPiece(site, kind, 0, b"all")), (2, CutPiece("a", PACKETS, 0, b"one"))]
        assert sorted(of_parts(tmp_path, written(tmp_path, [cut]), fetch, range(5))) == parts


def test_neighbours_in_a_file_are_read_at_once(tmp_path: Path) -> None:
    cuts: list[Cut] = [[(part, CutPiece(site, PACKETS, 7, b"12345")) for part in (0, 1) for site in "abc"]]
    asked: list[list[tuple[str, int, int]]] = []

    def fetch(ranges: Sequence[tuple[str, int, int]]) -> list[bytes]:
        asked.append(list(ranges))
        return filesystem.ranges(str(tmp_path), ranges)

    for pieces in of_parts(tmp_path, written(tmp_path, cuts), fetch, range(2)).values():
        assert [(piece.site, piece.data) for piece in pieces] == [(s, b"12345") for s in "abc"]
    assert [some for some in asked if some[0][0] == "0.packets"] == [[("0.packets", 0, 15)], [("0.packets", 15, 15)]]


def test_what_a_task_spilled_of_a_part_lies_together_in_its_file(tmp_path: Path) -> None:
    blocks = [b"%d" % n for n in range(100)]
    cut: Cut = [(n % 3, CutPiece("ab"[n % 2], PACKETS, n, framed(block))) for n, block in enumerate(blocks)]
    cut.append((EVERY, CutPiece("a", FRAGMENTS, 5, b"fragment")))
    fetch = partial(filesystem.ranges, str(tmp_path))
    (bounds,) = written(tmp_path, [cut], spilled=True)
    assert (bounds.pieces, bounds.first, bounds.last, bounds.is_for_all) == (7, 0, 2, True)
    for part, pieces in of_parts(tmp_path, [bounds], fetch, range(3)).items():
        assert [(piece.site, piece.kind) for piece in pieces] == [("a", FRAGMENTS), ("a", PACKETS), ("b", PACKETS)]
        found = [bytes(block) for piece in pieces[1:] for block in blocks_of(piece.data)]
        assert found == [b for site in (0, 1) for n, b in enumerate(blocks) if (n % 3, n % 2) == (part, site)]


def test_nothing_was_cut(tmp_path: Path) -> None:
    assert list(joined([]).by_part(range(3), parts_of)) == []
    bounds, data = index_bytes("none", PieceFile(BytesIO()).index("none"))
    (tmp_path / "none.index").write_bytes(data)
    assert of_parts(tmp_path, [bounds], partial(filesystem.ranges, str(tmp_path)), range(3)) == {}


@pytest.mark.parametrize("scheme", ["", "local://"])
def test_a_file_that_is_gone_or_shorter_is_named(tmp_path: Path, scheme: str) -> None:
    (tmp_path / "short").write_bytes(b"123")
    for name in ("short", "gone"):
        with pytest.raises(filesystem.StorageError, match="cannot be read"):
            filesystem.ranges(f"{scheme}{tmp_path}", [(name, 1, 5)])
