"""Folders of which one goes on where another ends are one capture point; two that see the same stay two."""

from collections.abc import Callable
from pathlib import Path

import pytest

import dissectors
from dissectors.capture import expand
from dissectors.capture import sites as module
from dissectors.capture.sites import joined_sites
from tests.pipelines.cutting import read, shifted, times, write

CAPTURE = Path(__file__).parents[2] / "samples" / "kafka-transactions.pcap"
HEAD, PACKETS = read(CAPTURE)
Pieces = list[tuple[str, list[bytes]]]


@pytest.fixture
def store(tmp_path: Path) -> Callable[[Pieces], list[str]]:
    """Writes captures of these packets, and says where they are."""

    def made(pieces: Pieces) -> list[str]:
        for name, packets in pieces:
            path = tmp_path / f"{name}.pcap"
            path.parent.mkdir(parents=True, exist_ok=True)
            write(path, HEAD, packets)
        return expand([str(tmp_path)])

    return made


def names(found: dict[str, str]) -> dict[str, str]:
    return {Path(site).name: Path(other).name for site, other in found.items()}


def thirds() -> list[list[bytes]]:
    size = -(-len(PACKETS) // 3)
    return [PACKETS[at : at + size] for at in range(0, len(PACKETS), size)]


def test_a_folder_that_goes_on_where_another_ends_is_the_same_place(store: Callable[[Pieces], list[str]]) -> None:
    files = store([(f"{name}/1", part) for name, part in zip(("west", "east", "north"), thirds(), strict=True)])
    assert names(joined_sites(files, "place")) == {"east": "west", "north": "west"}
    assert joined_sites(files, "folder") == {}
    assert joined_sites(files, "/(west)/") == {}


def test_two_points_that_see_the_same_packets_stay_two(store: Callable[[Pieces], list[str]]) -> None:
    later = shifted(HEAD, PACKETS, 1_000_000)
    files = store([("client/1", PACKETS), ("broker/1", later)])
    assert joined_sites(files, "place") == {}
    first, second, third = thirds()  # also where each has files of its own hours
    files = store(
        [("client/2", first), ("client/3", second + third), ("broker/2", first + second), ("broker/3", third)]
    )
    assert joined_sites(files, "place") == {}


def test_folders_without_a_connection_in_common_stay_apart(store: Callable[[Pieces], list[str]]) -> None:
    span = times(HEAD, PACKETS[-1:])[0] - times(HEAD, PACKETS[:1])[0]
    files = store([("monday/1", PACKETS), ("again/1", shifted(HEAD, PACKETS, span + 10**9))])
    assert joined_sites(files, "place") == {}  # every connection begins anew


def test_what_a_stretch_is_missing_of_is_another_place(store: Callable[[Pieces], list[str]]) -> None:
    first, _, third = thirds()
    assert joined_sites(store([("west/1", first), ("east/1", third)]), "place") == {}


def test_what_was_known_before_stands_and_gone_files_count(store: Callable[[Pieces], list[str]]) -> None:
    first, second, third = thirds()
    files = store([("west/1", first), ("east/1", second), ("north/1", third)])
    folder = str(Path(files[0]).parent.parent)
    assert joined_sites(files, "place", {f"{folder}/gone": "x"})[f"{folder}/gone"] == "x"
    late = {f"{folder}/west": (times(HEAD, first[:1])[0], times(HEAD, third[-1:])[0])}  # it had more, which is gone
    assert names(joined_sites(files, "place", {}, late)) == {"north": "east"}


def test_the_end_of_a_large_capture_is_found_from_behind(
    store: Callable[[Pieces], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = thirds()
    files = store([("west/1", first + second), ("east/1", third)])
    monkeypatch.setattr(module, "_READ_BYTES", 0)
    assert joined_sites(files, "place") == {}  # it is small, and not to be read
    monkeypatch.setattr(module, "_TAIL_BYTES", 4096)
    assert names(joined_sites(files, "place")) == {"east": "west"}


def test_rows_are_the_same_however_captures_are_foldered(store: Callable[[Pieces], list[str]]) -> None:
    known = {name: len(rows) for name, rows in dissectors.dissect(str(CAPTURE)).items()}
    parts = zip(("dt=2026-01-01/a", "dt=2026-01-02/a", "other/b"), thirds(), strict=True)
    rows = dissectors.dissect(store(list(parts)))
    assert {name: len(made) for name, made in rows.items()} == known
    assert len(set(rows["connections"]["site"].to_pylist())) == 1
