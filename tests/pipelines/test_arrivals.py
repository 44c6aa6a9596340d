"""`analyze --follow` takes a file once it has stopped growing, and every file once; a live capture as it grows."""

import contextlib
from pathlib import Path

from pipelines.lake.arrivals import arrivals

MAGIC = bytes.fromhex("d4c3b2a1")  # what makes a file a capture


class Writer:
    """Does one thing between two looks: writes to files, or gives up."""

    def __init__(self, *steps: dict[Path, bytes] | None) -> None:
        self._steps = list(steps)

    def __call__(self, seconds: float) -> None:
        if not self._steps:
            raise KeyboardInterrupt
        for path, data in (self._steps.pop(0) or {}).items():
            with path.open("ab") as file:
                file.write(data)


def names(files: list[str]) -> list[str]:
    return [Path(file).name for file in files]


def collected(folder: Path, *steps: dict[Path, bytes] | None) -> list[list[str]]:
    found: list[list[str]] = []
    with contextlib.suppress(KeyboardInterrupt):
        for files in arrivals([str(folder)], 1, wait=Writer(*steps)):
            found.append(names(files))
    return found


def test_a_file_counts_when_it_has_stopped_growing(tmp_path: Path) -> None:
    a, b = tmp_path / "a.pcap", tmp_path / "b.pcap"
    a.write_bytes(MAGIC)
    steps = ({b: MAGIC}, {b: b" and"}, {b: b" grows"}, None, None, {a: b" after all"}, None, None)
    assert collected(tmp_path, *steps) == [["a.pcap"], ["a.pcap", "b.pcap"], ["a.pcap", "b.pcap"]]


def test_a_live_capture_counts_as_it_grows(tmp_path: Path) -> None:
    a, live = tmp_path / "a.pcap", tmp_path / "live.pcap"
    a.write_bytes(MAGIC)
    more = {live: b"more"}
    both = ["a.pcap", "live.pcap"]
    assert collected(tmp_path, {live: MAGIC}, more, more, more, more) == [["a.pcap"], both, both]


def test_live_captures_side_by_side_count_as_they_grow(tmp_path: Path) -> None:
    live, other = tmp_path / "live.pcap", tmp_path / "other.pcap"
    for path in (live, other):
        path.write_bytes(MAGIC)
    more = {live: b"more", other: b"more"}
    assert collected(tmp_path, more, more, more, more) == [["live.pcap", "other.pcap"]] * 2


def test_a_compressed_capture_that_grows_is_left_until_it_is_whole(tmp_path: Path) -> None:
    live, other = tmp_path / "live.pcap", tmp_path / "other.pcap"
    live.write_bytes(b"\x1f\x8b")
    other.write_bytes(MAGIC)
    more = {live: b"more"}
    found = collected(tmp_path, more, more, more, more, more, None)
    assert found == [["other.pcap"], ["live.pcap", "other.pcap"]]


def test_a_store_may_be_empty_at_first(tmp_path: Path) -> None:
    assert collected(tmp_path / "later", None, None) == []
    folder = tmp_path / "empty"
    folder.mkdir()
    assert collected(folder, None, {folder / "a.pcap": MAGIC}, None) == [["a.pcap"]]
