"""Captures that grow, and are renamed, compressed or written over, while a lake is kept of them."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dissectors
from dissectors.errors import BrokerscopeError
from pipelines import lake as lakes
from pipelines.update import planned, update_records
from tests.capture.test_files import Pcapng
from tests.pipelines import cutting
from tests.pipelines.test_spark_update import OPTIONS, lake_rows, rows
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

    def update(self, spark: Any) -> None:
        update_records(spark, self.files(), str(self.lake), OPTIONS)

    def reads(self) -> dict[str, int | None]:
        """What the next update is to read: name of a file -> number of the first packet, None for all."""
        with planned(self.files(), str(self.lake), OPTIONS) as update:
            inputs = [file for files in update.inputs.values() for file in files]
        return {Path(file.path).name: file.since.number if file.since else None for file in inputs}

    def manifest(self) -> lakes.Site:
        found = lakes.load(str(self.lake))
        assert found is not None
        (site,) = found.sites.values()
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


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
@pytest.mark.parametrize("form", FORMS)
def test_a_capture_that_grows_gives_what_one_run_gives(
    spark: Any, samples: list[str], tmp_path_factory: pytest.TempPathFactory, form: str, data: Any
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
        growing.update(spark)
        assert lake_rows(growing.lake) == expected, f"{size} of {len(whole)} bytes"
    assert growing.manifest().files[0].packets == len(growing.packets)


def test_what_was_read_of_a_growing_capture_is_not_read_again(spark: Any, growing: Growing) -> None:
    half = growing.bytes_of(0, 0.5)
    growing.put("current.pcap", half + growing.packets[-1][:20])  # and the beginning of another packet
    growing.update(spark)
    (file,) = growing.manifest().files
    assert file.end == len(half)
    assert file.packets == round(len(growing.packets) / 2)
    assert file.first is not None
    assert file.first <= file.clock == growing.manifest().clock
    growing.put("current.pcap", growing.bytes_of())
    assert growing.reads() == {"current.pcap": file.packets + 1}
    growing.update(spark)
    assert growing.reads() == {}
    growing.put("current.pcap.gz", gzip.compress(growing.bytes_of()))
    (growing.day / "current.pcap").unlink()
    assert growing.reads() == {"current.pcap.gz": len(growing.packets) + 1}


def test_a_rotated_capture_goes_on_under_its_new_name(spark: Any, growing: Growing) -> None:
    """As logrotate does it: current becomes current.1, compressed, and a new current begins."""
    growing.put("current.pcap", growing.bytes_of(0, 0.3))
    growing.update(spark)
    growing.put("current.pcap.1.gz", gzip.compress(growing.bytes_of(0, 0.6)))
    growing.put("current.pcap", growing.bytes_of(0.6, 0.8))
    assert set(growing.reads()) == {"current.pcap.1.gz", "current.pcap"}
    growing.update(spark)
    growing.put("current.pcap", growing.bytes_of(0.6, 1.0))
    growing.update(spark)
    found = lake_rows(growing.lake)
    expected = at_once(growing.files())
    assert {name: len(some) for name, some in found.items()} == {name: len(some) for name, some in expected.items()}
    first, second = growing.manifest().files
    assert (Path(first.path).name, Path(first.place).name) == ("current.pcap", "current.pcap.1.gz")
    assert (Path(second.path).name, Path(second.place).name) == ("current.pcap", "current.pcap")
    assert (first.packets or 0) + (second.packets or 0) == len(growing.packets)
    assert growing.reads() == {}


def test_a_renamed_capture_is_not_read_again(spark: Any, growing: Growing) -> None:
    path = growing.put("current.pcap", growing.bytes_of())
    growing.update(spark)
    before = lake_rows(growing.lake)
    mark = lakes.fingerprint(str(growing.lake))
    path.rename(growing.day / "monday.pcap")
    assert growing.reads() == {}
    assert Path(growing.manifest().files[0].place).name == "monday.pcap"
    growing.update(spark)
    assert lake_rows(growing.lake) == before
    assert lakes.fingerprint(str(growing.lake)) == mark


def test_a_ring_of_captures_keeps_the_records_of_what_was_written_over(spark: Any, growing: Growing) -> None:
    expected = at_once([growing.put("current.pcap", growing.bytes_of())])
    thirds = [growing.bytes_of(n / 3, (n + 1) / 3) for n in range(3)]
    for n, name in enumerate(("ring-0.pcap", "ring-1.pcap", "ring-0.pcap")):
        (growing.day / "current.pcap").unlink(missing_ok=True)
        growing.put(name, thirds[n])
        growing.update(spark)
    found = lake_rows(growing.lake)
    assert {name: len(some) for name, some in found.items()} == {name: len(some) for name, some in expected.items()}
    growing.put("late.pcap", growing.bytes_of(0.1, 0.2))
    with pytest.raises(BrokerscopeError, match=r"ring-0\.pcap: was written over, and needed again"):
        growing.reads()


def test_a_capture_that_was_made_anew_replaces_its_records(spark: Any, growing: Growing) -> None:
    growing.put("current.pcap", growing.bytes_of(0.2, 1.0))
    growing.update(spark)
    path = growing.put("current.pcap", growing.bytes_of(0.1, 0.9))
    growing.update(spark)
    assert lake_rows(growing.lake) == at_once([path])


def test_a_capture_that_was_read_beside_its_compressed_copy_may_go(spark: Any, growing: Growing) -> None:
    """A run between the beginning and the end of gzip sees both."""
    path = growing.put("current.pcap", growing.bytes_of(0.3, 1.0))
    growing.update(spark)
    copy = growing.put("current.pcap.gz", gzip.compress(path.read_bytes()))
    growing.update(spark)
    path.unlink()
    late = growing.put("late.pcap", growing.bytes_of(0, 0.3))
    growing.update(spark)
    assert lake_rows(growing.lake) == at_once([copy, late])


def test_captures_that_grow_side_by_side_are_merged_by_time(spark: Any, growing: Growing) -> None:
    def every(second: int, stop: float) -> bytes:
        return growing.head + b"".join(growing.packets[second : round(stop * len(growing.packets)) : 2])

    for stop in (0.4, 0.7, 1.0):
        paths = [growing.put(f"eth{n}.pcap", every(n, stop)) for n in range(2)]
        growing.update(spark)
        assert lake_rows(growing.lake) == at_once(paths)


def test_a_capture_that_has_no_packets_yet_is_read_once_it_has(spark: Any, growing: Growing) -> None:
    growing.put("a.pcap", growing.bytes_of(0, 0.5))
    growing.update(spark)
    growing.put("b.pcap", growing.head)
    growing.update(spark)
    assert growing.reads() == {}
    path = growing.put("b.pcap", growing.bytes_of(0.5, 1.0))
    assert growing.reads() == {"b.pcap": None}
    growing.update(spark)
    assert lake_rows(growing.lake) == at_once([growing.day / "a.pcap", path])


def test_a_lake_of_an_older_format_is_read_and_its_grown_captures_decoded_anew(spark: Any, growing: Growing) -> None:
    growing.put("current.pcap", growing.bytes_of(0, 0.5))
    growing.update(spark)
    path = growing.lake / ".lake" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["format"] = 2
    for site in manifest["sites"].values():
        site["files"] = [{key: file[key] for key in ("path", "size", "problems")} for file in site["files"]]
    path.write_text(json.dumps(manifest))
    assert growing.reads() == {}
    whole = growing.put("current.pcap", growing.bytes_of())
    assert growing.reads() == {"current.pcap": None}
    growing.update(spark)
    assert lake_rows(growing.lake) == at_once([whole])
