"""What `analyze` says of bad checksums is what `brokerscope forensics` says."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dissectors.forensics import Investigation, report
from dissectors.options import Options
from pipelines.analyze import EngineName, OnSpark, analyze
from pipelines.tables.integrity import CASE_COLUMNS, place
from tests.forensics import scene
from tests.pipelines.conftest import SAMPLES, Analysed
from tests.wires import pcap


def local(paths: list[str], options: Options) -> list[dict[str, Any]]:
    investigation = Investigation(paths, options)
    investigation.run()
    return [report.as_json(case) for case in investigation.cases()]


def cases_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "forensics.jsonl").read_text().splitlines()]


def test_analyze_writes_what_forensics_says(analysed: Analysed, samples: list[str]) -> None:
    cases = cases_of(analysed.out)
    assert [case["diagnosis"]["pattern"] for case in cases] == ["single_bit"]
    assert cases == local(samples, Options())


def test_each_bad_batch_has_its_case_beside_it(analysed: Analysed) -> None:
    (case,) = cases_of(analysed.out)
    (row,) = pq.read_table(analysed.out / "tables" / "corrupt.parquet").to_pylist()
    assert row["broken"] == place(case["diagnosis"]["locations"][0])
    assert (row["pattern"], row["proven"], row["broke"], row["certainty"]) == (
        "single_bit",
        True,
        "before_tcp",
        "certain",
    )
    assert {column.name for column in CASE_COLUMNS} <= set(row)


@pytest.fixture
def broken_twice(tmp_path: Path) -> list[str]:
    """A connection in two files, broken in both: a bit of what is produced, a burst of zeros in what is fetched."""
    packets = list(scene.kafka(100).packets)
    produced, at = scene.find(packets, b"1:The quick")
    packets[produced] = scene.broken(packets[produced], {at: 2}, repaired=True)
    fetched, at = scene.find(packets, b"2:The quick", 1)
    changes = {at + i: packets[fetched].data[at + i] for i in range(8)}
    packets[fetched] = scene.broken(packets[fetched], changes, repaired=False)
    middle = (produced + fetched) // 2
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path, part in zip(files, (packets[:middle], packets[middle:]), strict=True):
        path.write_bytes(pcap(part, nano=True))
    return [str(path) for path in files]


def analysed_into(out: Path, paths: list[str], engine: EngineName) -> list[dict[str, Any]]:
    """What `analyze` says of the bad checksums in these captures."""
    out.mkdir()
    analyze(paths, out, Options(), engine)
    return cases_of(out)


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_cases_over_several_files_are_those_of_the_local_command(
    spark: Any, broken_twice: list[str], tmp_path: Path, engine: EngineName
) -> None:
    cases = analysed_into(tmp_path / "out", broken_twice, engine)
    assert [case["role"] for case in cases] == ["produce", "consume"]
    assert cases == local(broken_twice, Options())


def test_an_update_reads_captures_again_only_for_what_is_new(
    spark: Any, broken_twice: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines import forensics

    looked_into: list[int] = []
    real = forensics._suspects

    def counted(*args: Any) -> Any:
        looked_into.append(len(args[-1]))
        return real(*args)

    monkeypatch.setattr(forensics, "_suspects", counted)
    later = shutil.copy(SAMPLES / "iggy-messages.pcap", tmp_path / "later.pcap")
    for name, expected in (("first", 1), ("second", 2), ("third", 2)):
        files = {"first": broken_twice[:1], "second": broken_twice, "third": [*broken_twice, str(later)]}[name]
        (tmp_path / name).mkdir()
        on_spark = OnSpark(store=str(tmp_path / "lake"), update=True)
        analyze(files, tmp_path / name, Options(), "spark", on_spark=on_spark)
        assert cases_of(tmp_path / name) == local(files, Options()), name
        assert len(cases_of(tmp_path / name)) == expected
    assert looked_into[0] == 1
    assert len(looked_into) == 2, "the third run has no bad checksum that is new"


def test_where_all_is_well_nothing_is_read_again(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines import forensics

    def never(*args: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(forensics, "_suspects", never)
    (tmp_path / "a.pcap").write_bytes(pcap(scene.kafka().packets, nano=True))
    assert analysed_into(tmp_path / "out", [str(tmp_path / "a.pcap")], "spark") == []
