"""The records that tasks make are those of a plain run, however a capture is cut and shared out, on Spark too."""

import random
import re
import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import dissectors
from dissectors import records
from dissectors.options import Options
from pipelines.executors.local import LocalExecutor
from pipelines.jobs import plan
from pipelines.jobs import records as jobs
from pipelines.spark.job import decode_to_records
from pipelines.storage.outputs import OutputError, OutputIsInputError
from tests.pipelines import cutting
from tests.pipelines.cutting import cut
from tests.pipelines.sessions import settings
from tests.pipelines.stored import read

TABLES = tuple(records.TABLES)
OPTIONS = Options(tables=TABLES, full=True, payloads=True)


def rows(table: pa.Table, name: str) -> list[str]:
    schema = records.schema(name, full=True, payloads=True)
    return sorted(map(repr, table.cast(schema).to_pylist()))


def local(paths: list[str]) -> dict[str, list[str]]:
    made = dissectors.dissect(paths, tables=TABLES, full=True, payloads=True)
    return {name: rows(table, name) for name, table in made.items()}


def by_tasks(paths: list[str], out: Path, parts: int, split_bytes: int = 1 << 30) -> dict[str, list[str]]:
    """The records that tasks make in this process."""
    executor = LocalExecutor(1)
    executor.parts, executor.split_bytes = parts, split_bytes
    jobs.decode_to_records(executor, paths, str(out), OPTIONS)
    return made_in(out)


def made_in(out: Path) -> dict[str, list[str]]:
    return {name: rows(read(out / "records" / name), name) for name in TABLES}


@pytest.fixture(scope="module")
def expected(samples: list[str]) -> dict[str, list[str]]:
    return local(samples)


def test_the_samples_fill_every_table(expected: dict[str, list[str]]) -> None:
    assert {name: bool(made) for name, made in expected.items()} == dict.fromkeys(TABLES, True)


@pytest.mark.parametrize(("parts", "split_bytes"), [(1, 1 << 30), (5, 20_000), (64, 200_000)])
def test_parts_and_splits_change_nothing(
    samples: list[str], expected: dict[str, list[str]], tmp_path: Path, parts: int, split_bytes: int
) -> None:
    got = by_tasks(samples, tmp_path, parts, split_bytes)
    for name in TABLES:
        assert got[name] == expected[name], name


@pytest.mark.parametrize(
    ("sample", "is_cut"), [("iggy-messages", False), ("pulsar-subscriptions", False), ("kafka-codecs", True)]
)
def test_a_capture_that_is_nearly_one_connection_is_not_cut(
    samples: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sample: str, is_cut: bool
) -> None:
    monkeypatch.setattr("pipelines.jobs.cutting._SAMPLED", 1)
    for limit, size in {"HELD_BYTES": 0, "LEAST_BYTES": 10_000, "BYTES_A_PART": 10_000}.items():
        monkeypatch.setattr(plan, limit, size)
    whole = next(path for path in samples if path.endswith(f"{sample}.pcap"))
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(Path(whole).read_bytes()[:-7])
    steps: list[str] = []
    executor = LocalExecutor(1, steps.append)
    executor.split_bytes = 10_000
    jobs.decode_to_records(executor, [str(torn)], str(tmp_path), OPTIONS)
    assert any(step.startswith("looking for places to split") for step in steps)
    assert any(step.startswith("reading captures: ") for step in steps) is is_cut
    assert made_in(tmp_path) == local([str(torn)])


@pytest.mark.parametrize(("parts", "split_bytes"), [(1, 1 << 30), (5, 20_000)])
def test_spark_makes_the_same(
    spark: Any, samples: list[str], expected: dict[str, list[str]], tmp_path: Path, parts: int, split_bytes: int
) -> None:
    wanted = {"spark.sql.shuffle.partitions": str(parts), "spark.brokerscope.splitBytes": str(split_bytes)}
    with settings(spark, wanted):
        decode_to_records(spark, samples, str(tmp_path), OPTIONS)
    got = made_in(tmp_path)
    for name in TABLES:
        assert got[name] == expected[name], name


def test_a_capture_cut_into_files_gives_the_same_rows(tmp_path: Path, samples: list[str]) -> None:
    whole = [Path(p) for p in samples if p.endswith(".pcap")][:4]
    files = [name for path in whole for name in cut(path, tmp_path, 4)]
    torn = tmp_path / "torn.pcap"
    torn.write_bytes(whole[0].read_bytes()[:-7])
    shutil.copy(__file__, tmp_path / "not-a-capture.pcap")
    files += [str(torn), str(tmp_path / "not-a-capture.pcap")]
    want, got = local(files), by_tasks(files, tmp_path / "out", 3)
    for name in TABLES:
        assert got[name] == want[name], name
    kinds = {kind for kind in ("truncated_file", "unreadable_file") if any(kind in row for row in got["findings"])}
    assert kinds == {"truncated_file", "unreadable_file"}


@pytest.mark.parametrize("parts", [1, 4])
def test_fragments_on_both_sides_of_a_border_are_put_together(samples: list[str], tmp_path: Path, parts: int) -> None:
    head, packets = max(
        (cutting.read(Path(p)) for p in samples if p.endswith(".pcap")), key=lambda c: sum(map(len, c[1]))
    )
    rng = random.Random(5)
    pieces = cutting.fragmented(head, packets, 400, rng)
    assert len(pieces) > len(packets)
    borders = [0, *sorted(rng.sample(range(len(pieces)), 7)), len(pieces)]
    folder = tmp_path / "in"
    folder.mkdir()
    files = [cutting.write(folder / f"{n}.pcap", head, pieces[a:b]) for n, (a, b) in enumerate(pairwise(borders))]
    whole = tmp_path / "whole"
    whole.mkdir()
    want = dissectors.dissect([cutting.write(whole / "all.pcap", head, packets)])["exchanges"]
    want_rows, got_rows = (
        sorted(map(repr, meaning(t).to_pylist())) for t in (want, dissectors.dissect(files)["exchanges"])
    )
    assert got_rows == want_rows
    got = by_tasks(files, tmp_path / "out", parts)
    assert got == local(files)


def test_fragments_of_a_datagram_in_files_of_the_same_time_are_put_together_in_one_order(
    samples: list[str], tmp_path: Path
) -> None:
    head, packets = max(
        (cutting.read(Path(p)) for p in samples if p.endswith(".pcap")), key=lambda c: sum(map(len, c[1]))
    )
    rng = random.Random(8)
    pieces = cutting.timed(head, cutting.fragmented(head, packets, 400, rng), step=20_000)
    assert len(pieces) > len(packets)
    folder = tmp_path / "in"
    folder.mkdir()
    to = [rng.randrange(3) for _ in pieces]
    files = [
        cutting.write(folder / f"{n}.pcap", head, [p for p, one in zip(pieces, to, strict=True) if one == n])
        for n in range(3)
    ]
    whole = tmp_path / "whole"
    whole.mkdir()
    want = dissectors.dissect([cutting.write(whole / "all.pcap", head, pieces)])["exchanges"]
    got = dissectors.dissect(files)["exchanges"]
    want_rows, got_rows = (sorted(map(repr, meaning(t).to_pylist())) for t in (want, got))
    assert got_rows == want_rows
    assert by_tasks(files, tmp_path / "out", 3, 50_000) == local(files)


def meaning(exchanges: pa.Table) -> pa.Table:
    """Without where they lie."""
    return exchanges.select(["connection", "kind", "api", "correlation_id", "time", "total_ns", "status", "records"])


def test_the_format_is_found_by_its_name_and_gives_packets(spark: Any, samples: list[str]) -> None:
    packets = spark.read.format("pcap").load(samples[0])
    first = packets.orderBy("packet").first()
    assert first["packet"] == 1
    assert first["note"] is None
    assert first["time_ns"] // 1000 == packets.selectExpr("min(unix_micros(time))").first()[0]
    assert packets.rdd.getNumPartitions() == 1


def test_records_may_go_to_any_file_system(spark: Any, samples: list[str], tmp_path: Path) -> None:
    options = Options()
    out = f"local://{tmp_path}/out"  # fsspec's: Spark has none of this name
    decode_to_records(spark, samples[2:4], out, options)
    decoded = decode_to_records(spark, samples[:3], out, options)
    for name, table in dissectors.dissect(samples[:3]).items():
        found = decoded.records[name].toArrow().cast(table.schema)
        assert sorted(map(repr, found.to_pylist())) == sorted(map(repr, table.to_pylist())), name
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["records"]


def test_records_are_replaced_by_those_of_another_run(spark: Any, samples: list[str], tmp_path: Path) -> None:
    out = tmp_path / "out"
    for paths in (samples[:3], samples[:2]):
        decode_to_records(spark, paths, str(out), OPTIONS)
        found = {name: rows(read(out / "records" / name), name) for name in TABLES}
        assert found == local(paths)
    assert [path.name for path in out.iterdir()] == ["records"]
    with pytest.raises(OutputError, match="is there already, and mode='errorifexists' does not replace it"):
        decode_to_records(spark, samples, str(out), OPTIONS, mode="errorifexists")
    assert {name: rows(read(out / "records" / name), name) for name in TABLES} == found


@pytest.mark.parametrize(
    ("there", "why"),
    [
        ("records/mine.txt", "holds 'mine.txt', which brokerscope did not write"),
        ("analysis.json", "`brokerscope analyze` keeps these records"),
        (".lake/manifest.json", "`brokerscope analyze` keeps these records"),
    ],
)
def test_what_is_not_only_records_is_not_replaced(samples: list[str], tmp_path: Path, there: str, why: str) -> None:
    path = tmp_path / there
    path.parent.mkdir(exist_ok=True)
    path.write_text("kept")
    with pytest.raises(OutputError if "records/" not in there else OutputIsInputError, match=re.escape(why)):
        decode_to_records(None, samples, str(tmp_path), OPTIONS)  # type: ignore[arg-type]  # before Spark is asked
    assert path.read_text() == "kept"


def test_captures_among_the_records_are_not_replaced(samples: list[str], tmp_path: Path) -> None:
    capture = tmp_path / "records" / "exchanges" / "a.pcap"
    capture.parent.mkdir(parents=True)
    capture.write_bytes(Path(samples[0]).read_bytes())
    with pytest.raises(OutputIsInputError, match="holds the input"):
        decode_to_records(None, [str(capture)], str(tmp_path), OPTIONS)  # type: ignore[arg-type]


def test_a_mode_that_means_nothing_is_named(samples: list[str], tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="mode='append' is none of overwrite, errorifexists"):
        decode_to_records(None, samples, str(tmp_path), OPTIONS, mode="append")  # type: ignore[arg-type]
