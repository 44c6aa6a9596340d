"""Captures that grow, and are renamed, compressed or written over, while a lake is kept of them."""

import gzip
import json
import os
import random
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dissectors
from dissectors.errors import BrokerscopeError
from dissectors.limits import SPLIT_BYTES
from pipelines.answers.records import read_analysis
from pipelines.executors.executor import Executor
from pipelines.executors.local import LocalExecutor
from pipelines.lake import new_files
from pipelines.lake.captures import CapturesNow
from pipelines.lake.new_files import choose
from pipelines.lake.update import planned, update_records
from pipelines.storage import lake_files
from pipelines.storage.lake_files import Manifest
from pipelines.storage.record_files import names_site
from pipelines.storage.stages import UNKNOWN, Site
from tests.capture.test_files import Pcapng
from tests.pipelines import cutting
from tests.pipelines.stored import last_commit
from tests.pipelines.test_updates import OPTIONS, lake_rows, rows
from tests.wires import Packet

Rows = dict[str, list[str]]


class Growing:
    """A store of one folder, its lake, and a capture whose packets come into it."""

    def __init__(self, folder: Path, sample: Path) -> None:
        self.day = folder / "store" / "day"
        self.day.mkdir(parents=True)
        self.lake = folder / "lake"
        self.head, self.packets = cutting.read(sample)

    def bytes_of(self, start: float = 0.0, stop: float = 1.0) -> bytes:
        """A pcap file with these packets, as shares of all."""
        some = self.packets[round(start * len(self.packets)) : round(stop * len(self.packets))]
        return self.head + b"".join(some)

    def put(self, name: str, data: bytes) -> Path:
        path = self.day / name
        path.write_bytes(data)
        return path

    def files(self) -> list[str]:
        return sorted(map(str, self.day.iterdir()))

    def update(self, executor: Executor) -> None:
        update_records(executor, self.files(), str(self.lake), OPTIONS)

    def reads(self) -> dict[str, int | None]:
        """What the next update is to read: name of a file -> number of the first packet, None for all."""
        with planned(self.files(), str(self.lake), OPTIONS) as update:
            inputs = [file for files in update.inputs.values() for file in files]
        return {Path(file.path).name: file.since.number if file.since else None for file in inputs}

    def manifest(self) -> Site:
        (site,) = last_commit(self.lake).manifest.sites.values()
        return site


def at_once(files: Sequence[str | Path]) -> Rows:
    return {name: rows(table) for name, table in dissectors.dissect(sorted(map(str, files))).items()}


@pytest.fixture
def growing(samples: list[str], tmp_path: Path) -> Growing:
    return Growing(tmp_path, _sample(samples))


def _sample(samples: list[str]) -> Path:
    return max((Path(path) for path in samples if path.endswith(".pcap")), key=os.path.getsize)


def as_pcapng(pcap: bytes, folder: Path) -> bytes:
    path = folder / "to-convert.pcap"
    path.write_bytes(pcap)
    _, packets = cutting.read(path)
    out = Pcapng().interface()
    for packet in packets:
        seconds, fraction, have, wire = (int.from_bytes(packet[n : n + 4], "little") for n in (0, 4, 8, 12))
        out.enhanced(Packet(seconds * 10**9 + fraction * 1000, packet[16 : 16 + have], wire))
    path.unlink()
    return out.out


FORMS: dict[str, Callable[[bytes, Path], bytes]] = {
    "pcap": lambda data, _: data,
    "pcapng": as_pcapng,
    "gzip": lambda data, _: gzip.compress(data, mtime=0),
}


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("form", FORMS)
def test_a_capture_that_grows_gives_what_one_run_gives(
    executor: Executor, samples: list[str], tmp_path_factory: pytest.TempPathFactory, form: str, data: Any
) -> None:
    growing = Growing(tmp_path_factory.mktemp("store"), _sample(samples))
    whole = FORMS[form](growing.bytes_of(), growing.day.parent)
    first = data.draw(st.integers(1, len(whole) - 1))  # cut anywhere, also within a packet
    for size in (first, data.draw(st.integers(first, len(whole) - 1)), len(whole)):
        path = growing.put("current.pcap", whole[:size])
        try:
            expected = at_once([path])
        except BrokerscopeError:  # not even the header is there
            path.unlink()
            continue
        growing.update(executor)
        assert lake_rows(growing.lake) == expected, f"{size} of {len(whole)} bytes"
    assert growing.manifest().files[0].packets == len(growing.packets)


@pytest.mark.parametrize("back_s", [0, 3600])
@pytest.mark.parametrize("form", FORMS)
def test_a_growing_capture_whose_clock_stands_or_steps_back_loses_nothing(
    executor: Executor, growing: Growing, form: str, back_s: int
) -> None:
    half = len(growing.packets) // 2
    last, first = cutting.times(growing.head, growing.packets[half - 1 : half + 1])
    growing.packets[half:] = cutting.shifted(growing.head, growing.packets[half:], last - first - back_s * 10**9)
    for stop in (0.5, 0.6, 1.0):
        path = growing.put("current.pcap", FORMS[form](growing.bytes_of(0, stop), growing.day.parent))
        growing.update(executor)
        assert lake_rows(growing.lake) == at_once([path]), stop


def test_what_was_read_of_a_growing_capture_is_not_read_again(executor: Executor, growing: Growing) -> None:
    half = growing.bytes_of(0, 0.5)
    growing.put("current.pcap", half + growing.packets[-1][:20])  # and the beginning of another packet
    growing.update(executor)
    (file,) = growing.manifest().files
    assert file.end == len(half)
    assert file.packets == round(len(growing.packets) / 2)
    assert file.first is not None
    assert file.first <= file.clock == growing.manifest().clock
    growing.put("current.pcap", growing.bytes_of())
    assert growing.reads() == {"current.pcap": file.packets + 1}
    growing.update(executor)
    assert growing.reads() == {}
    growing.put("current.pcap.gz", gzip.compress(growing.bytes_of()))
    (growing.day / "current.pcap").unlink()
    assert growing.reads() == {"current.pcap.gz": len(growing.packets) + 1}


def test_a_rotated_capture_goes_on_under_its_new_name(executor: Executor, growing: Growing) -> None:
    """As logrotate does it: current becomes current.1, compressed, and a new current begins."""
    growing.put("current.pcap", growing.bytes_of(0, 0.3))
    growing.update(executor)
    growing.put("current.pcap.1.gz", gzip.compress(growing.bytes_of(0, 0.6)))
    growing.put("current.pcap", growing.bytes_of(0.6, 0.8))
    assert set(growing.reads()) == {"current.pcap.1.gz", "current.pcap"}
    growing.update(executor)
    growing.put("current.pcap", growing.bytes_of(0.6, 1.0))
    growing.update(executor)
    found = lake_rows(growing.lake)
    expected = at_once(growing.files())
    assert {name: len(some) for name, some in found.items()} == {name: len(some) for name, some in expected.items()}
    first, second = growing.manifest().files
    assert (Path(first.path).name, Path(first.place).name) == ("current.pcap", "current.pcap.1.gz")
    assert (Path(second.path).name, Path(second.place).name) == ("current.pcap", "current.pcap")
    assert (first.packets or 0) + (second.packets or 0) == len(growing.packets)
    assert growing.reads() == {}


def test_a_renamed_capture_is_not_read_again(executor: Executor, growing: Growing) -> None:
    path = growing.put("current.pcap", growing.bytes_of())
    growing.update(executor)
    before = lake_rows(growing.lake)
    mark = lake_files.fingerprint(str(growing.lake))
    path.rename(growing.day / "monday.pcap")
    assert growing.reads() == {}
    assert Path(growing.manifest().files[0].place).name == "monday.pcap"
    growing.update(executor)
    assert lake_rows(growing.lake) == before
    assert lake_files.fingerprint(str(growing.lake)) == mark


def test_a_ring_of_captures_keeps_the_records_of_what_was_written_over(executor: Executor, growing: Growing) -> None:
    expected = at_once([growing.put("current.pcap", growing.bytes_of())])
    thirds = [growing.bytes_of(n / 3, (n + 1) / 3) for n in range(3)]
    for n, name in enumerate(("ring-0.pcap", "ring-1.pcap", "ring-0.pcap")):
        (growing.day / "current.pcap").unlink(missing_ok=True)
        growing.put(name, thirds[n])
        growing.update(executor)
    found = lake_rows(growing.lake)
    assert {name: len(some) for name, some in found.items()} == {name: len(some) for name, some in expected.items()}
    growing.put("late.pcap", growing.bytes_of(0.1, 0.2))
    assert growing.reads() == dict.fromkeys(("late.pcap", "ring-0.pcap", "ring-1.pcap"))
    growing.update(executor)
    (gone,) = last_commit(growing.lake).manifest.gone
    assert (Path(gone.path).name, gone.place) == ("ring-0.pcap", "")


def test_a_capture_that_was_made_anew_replaces_its_records(executor: Executor, growing: Growing) -> None:
    growing.put("current.pcap", growing.bytes_of(0.2, 1.0))
    growing.update(executor)
    path = growing.put("current.pcap", growing.bytes_of(0.1, 0.9))
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once([path])


def test_a_capture_that_was_read_beside_its_compressed_copy_may_go(executor: Executor, growing: Growing) -> None:
    """A run between the beginning and the end of gzip sees both."""
    path = growing.put("current.pcap", growing.bytes_of(0.3, 1.0))
    growing.update(executor)
    copy = growing.put("current.pcap.gz", gzip.compress(path.read_bytes()))
    growing.update(executor)
    path.unlink()
    late = growing.put("late.pcap", growing.bytes_of(0, 0.3))
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once([copy, late])


@settings(max_examples=2, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("fragments", [False, True])
def test_captures_that_grow_side_by_side_give_what_one_run_gives(
    samples: list[str], tmp_path_factory: pytest.TempPathFactory, fragments: bool, data: Any
) -> None:
    """Each capturer writes when it likes, so one of them is behind the other; some begin late."""
    growing = Growing(tmp_path_factory.mktemp("store"), _sample(samples))
    rng = random.Random(1)
    pieces = [cutting.fragmented(growing.head, [one], 400, rng) if fragments else [one] for one in growing.packets]
    writers = data.draw(st.integers(2, 3))
    shares = st.lists(st.floats(0, 1), min_size=3, max_size=3).map(sorted)
    stops = [data.draw(shares) for _ in range(writers)]
    captures = [[piece for some in pieces[writer::writers] for piece in some] for writer in range(writers)]
    executor = LocalExecutor(1)
    executor.split_bytes = data.draw(st.sampled_from([20_000, SPLIT_BYTES]))
    for n in range(4):
        for writer, shares in enumerate(stops):
            count = round([*shares, 1.0][n] * len(captures[writer]))
            growing.put(f"eth{writer}.pcap", growing.head + b"".join(captures[writer][:count]))
        growing.update(executor)
        assert lake_rows(growing.lake) == at_once(growing.files()), (n, stops)


def test_of_captures_side_by_side_only_what_is_near_their_ends_is_decoded_again(
    executor: Executor, growing: Growing
) -> None:
    def put(stop: float, behind: float) -> None:
        for writer in range(2):
            count = round((stop - behind * writer) * len(growing.packets))
            growing.put(f"eth{writer}.pcap", growing.head + b"".join(growing.packets[writer:count:2]))

    kept: set[str] = set()
    for stop in (0.4, 0.7, 1.0):
        put(stop, 0.05)
        growing.update(executor)
        site = growing.manifest()
        last, before = site.stages[-1], site.stages[-2]
        behind, ahead = (site.files[n].clock for n in (1, 0))
        assert (before.clock, last.clock) == (behind, ahead)
        assert kept <= {file.path for stage in site.stages for file in stage.rows.records}
        kept = {file.path for stage in site.stages[:-1] for file in stage.rows.records}
        assert kept


def test_what_is_far_behind_may_go_while_two_capturers_begin_new_files(executor: Executor, growing: Growing) -> None:
    hours, size = 5, -(-len(growing.packets) // 5)
    shift = size // 10  # the second one ends its files earlier
    everything = growing.day.parent / "everything"
    everything.mkdir()
    for hour in range(hours):
        for writer in range(2):
            start, stop = (max(0, n * size - shift * writer) for n in (hour, hour + 1))
            some = growing.packets[start : stop if hour + 1 < hours else None]
            mine = [packet for n, packet in enumerate(some, start) if n % 2 == writer]
            path = growing.put(f"{hour}-eth{writer}.pcap", growing.head + b"".join(mine))
            (everything / path.name).write_bytes(path.read_bytes())
            (growing.day / f"{hour - 2}-eth{writer}.pcap").unlink(missing_ok=True)
        growing.update(executor)
    found = lake_rows(growing.lake)
    expected = at_once([*everything.iterdir()])
    assert [repr(found[name]).replace(str(growing.day), "") for name in found] == [
        repr(expected[name]).replace(str(everything), "") for name in found
    ]


def test_a_late_capture_needs_no_files_that_end_before_it(executor: Executor, growing: Growing) -> None:
    parts = [growing.put(f"{n}.pcap", growing.bytes_of(n / 5, (n + 1) / 5)) for n in range(5)]
    expected = at_once(parts)
    late = parts[3].read_bytes()
    parts[3].unlink()
    for n in range(3):
        growing.update(executor)
        parts[n].unlink()
    growing.update(executor)
    parts[3].write_bytes(late)
    assert growing.reads() == {"3.pcap": None, "4.pcap": None}
    growing.update(executor)
    assert lake_rows(growing.lake) == expected


@pytest.mark.parametrize("begun", [False, True])
def test_a_capture_that_could_not_be_read_is_read_once_it_can(
    executor: Executor, growing: Growing, begun: bool
) -> None:
    growing.put("a.pcap", growing.bytes_of(0, 0.4))
    if begun:
        growing.put("b.pcap", growing.bytes_of(0.4, 0.6))
        growing.update(executor)
    path = growing.put("b.pcap", growing.bytes_of(0.4, 1.0))
    with planned(growing.files(), str(growing.lake), OPTIONS) as update:
        data = path.read_bytes()
        path.write_bytes(bytes(len(data)))  # as where a file system does not answer
        made = update.run(executor)
    assert [message for _, message in made.problems] == [f"{path}: is not a pcap or pcapng capture"]
    assert growing.reads() == {}
    path.write_bytes(data)
    assert list(growing.reads()) == ["b.pcap"]
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once([growing.day / "a.pcap", path])


def test_a_capture_of_which_one_task_could_not_read_its_part_is_read_again_as_a_whole(
    executor: Executor, growing: Growing
) -> None:
    paths = [str(growing.put("a.pcap", growing.bytes_of(0, 0.4))), str(growing.put("b.pcap", growing.bytes_of(0.4, 1)))]
    growing.update(executor)
    after = last_commit(growing.lake).manifest
    (site,) = after.sites.values()
    site.files[1].size = UNKNOWN
    news = choose(after, paths, CapturesNow.of(paths, {path: path for path in paths}, OPTIONS))
    inputs = {file.path: file.since for files in news.inputs.values() for file in files}
    assert inputs[paths[1]] is None


@pytest.mark.parametrize("filler", [b"\0", b"\xff"])
def test_a_capture_that_had_its_size_before_its_bytes_is_read_on_once_they_are_there(
    executor: Executor, growing: Growing, filler: bytes
) -> None:
    whole, half = growing.bytes_of(), growing.bytes_of(0, 0.5)
    path = growing.put("a.pcap", half + filler * (len(whole) - len(half)))
    for _ in range(2):
        with planned(growing.files(), str(growing.lake), OPTIONS) as update:
            if update.has_news:
                update.run(executor)
    assert growing.reads() == {}, "what is still damaged is not read again"
    path.write_bytes(whole)
    assert growing.reads() == {"a.pcap": len(growing.packets) // 2 + 1}
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once([path])


def test_a_name_that_was_given_once_and_is_no_capture_is_not_complained_of_again(
    executor: Executor, growing: Growing
) -> None:
    path = growing.put("a.pcap", growing.bytes_of(0, 0.5))
    given = [str(path), str(growing.day / "none.pcap")]
    made = update_records(executor, given, str(growing.lake), OPTIONS)
    assert [message for _, message in made.problems] == [f"{given[1]}: no such file"]
    assert update_records(executor, given, str(growing.lake), OPTIONS).problems == made.problems
    with planned(given[:1], str(growing.lake), OPTIONS) as again:
        assert (again.has_news, again.problems) == (False, [])
    assert lake_rows(growing.lake)["findings"] == at_once([path])["findings"]
    growing.put("b.pcap", growing.bytes_of(0.5, 1.0))
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once(growing.files())


def test_a_capture_that_has_no_packets_yet_is_read_once_it_has(executor: Executor, growing: Growing) -> None:
    growing.put("a.pcap", growing.bytes_of(0, 0.5))
    growing.update(executor)
    growing.put("b.pcap", growing.head)
    growing.update(executor)
    assert growing.reads() == {}
    path = growing.put("b.pcap", growing.bytes_of(0.5, 1.0))
    assert growing.reads() == {"b.pcap": None}
    growing.update(executor)
    assert lake_rows(growing.lake) == at_once([growing.day / "a.pcap", path])


def as_before(lake: Path) -> None:
    """Make a lake one of the format before: records in folders by site and date, and no folders of commits."""
    home = Path(last_commit(lake).home)
    manifest = json.loads((home / ".lake" / "manifest.json").read_text())
    (lake / "records").unlink()
    for path in (home / "records").rglob("*.parquet"):
        folder = lake / "records" / path.parent.name / "site=day" / "date=2026-01-31"
        folder.mkdir(parents=True, exist_ok=True)
        path.rename(folder / path.name)
    for path in (home / ".lake").iterdir():
        path.rename(lake / ".lake" / path.name)
    shutil.rmtree(home.parent)
    text = json.dumps(
        {name: value for name, value in manifest.items() if name not in ("files", "empty")} | {"format": 4}
    )
    text = re.sub(r'"(\w+)/([^"/]*~[^"/]*\.parquet)"', r'"\1/site=day/date=2026-01-31/\2"', text)
    (lake / ".lake" / "manifest.json").write_text(text)


def test_a_lake_of_the_format_before_is_read_and_the_next_update_decodes_it_anew(
    executor: Executor, growing: Growing
) -> None:
    growing.put("current.pcap", growing.bytes_of(0, 0.5))
    growing.update(executor)
    before = read_analysis(str(growing.lake), ["exchanges"])["exchanges"].to_table()
    as_before(growing.lake)
    assert read_analysis(str(growing.lake), ["exchanges"])["exchanges"].to_table() == before
    whole = growing.put("current.pcap", growing.bytes_of())
    assert growing.reads() == {"current.pcap": None}
    for _ in range(2):
        growing.update(executor)
        assert lake_rows(growing.lake) == at_once([whole])
    assert {path.name for path in (growing.lake / ".lake").iterdir()} == {"lock", "commits"}
    assert len(list((growing.lake / ".lake" / "commits").iterdir())) == 1


def test_a_lake_of_an_unknown_format_is_refused_in_one_line(executor: Executor, growing: Growing) -> None:
    growing.put("current.pcap", growing.bytes_of(0, 0.5))
    (growing.lake / ".lake").mkdir(parents=True)
    (growing.lake / ".lake" / "manifest.json").write_text('{"format": 3}')
    with pytest.raises(BrokerscopeError, match="OUT has format 3, and this version writes 7; use another OUT"):
        growing.update(executor)


@pytest.mark.parametrize("together", [12, 5])
def test_captures_that_are_capture_points_of_their_own_share_what_a_lake_keeps(
    growing: Growing, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    monkeypatch.setattr(new_files, "TOGETHER", together)
    options = OPTIONS._replace(site="file")
    executor = LocalExecutor(1)

    def update() -> Manifest:
        update_records(executor, growing.files(), str(growing.lake), options)
        expected = {name: rows(table) for name, table in dissectors.dissect(growing.files(), site="file").items()}
        assert lake_rows(growing.lake) == expected
        return last_commit(growing.lake).manifest

    def lasting(name: str) -> list[str]:
        return [file.path for file in manifest.sites[str(growing.day / name)].stages[-1].rows.records]

    for n in range(12):
        growing.put(f"{n:02}.pcap", growing.bytes_of(n / 12, (n + 1) / 12))
    growing.put("00.pcap", growing.bytes_of(0, 0.04))
    manifest = update()
    shares = [min(together, 12 - n) for n in range(0, 12, together)]
    assert [len(site.files) for site in manifest.sites.values()] == shares
    assert not any(names_site(file.path) for file in manifest.records())
    kept = lasting("00.pcap")

    growing.put("late.pcap", growing.bytes_of(0.5, 0.6))
    manifest = update()
    assert [len(site.files) for site in manifest.sites.values()] == [*shares, 1], "what comes together is one site"
    assert lasting("00.pcap") == kept, "no capture is late where each is decoded by itself"

    growing.put("00.pcap", growing.bytes_of(0, 0.08))
    growing.put("05.pcap", growing.bytes_of(5 / 12, 7 / 12))
    with planned(growing.files(), str(growing.lake), options) as plan:
        assert sum(len(files) for files in plan.inputs.values()) == 2
    manifest = update()
    assert set(kept) <= {file.path for file in manifest.records()}, "rows that were final stay in their files"

    growing.put("03.pcap", growing.bytes_of(0.1, 0.2))  # begins earlier than what lay there
    update()

    growing.put("02.pcap", growing.bytes_of(0.15, 0.25))
    expected = {name: rows(table) for name, table in dissectors.dissect(growing.files(), site="file").items()}
    (growing.day / "01.pcap").unlink()
    update_records(executor, growing.files(), str(growing.lake), options)
    found = lake_rows(growing.lake)
    (notice,) = set(found.pop("findings")) - set(expected.pop("findings"))
    assert "1 capture cannot be read again" in notice
    assert found == expected, "rows of a capture that is gone stay"
