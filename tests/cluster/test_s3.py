"""Captures and results in an S3-compatible store: the rows of a run over local files."""

from pathlib import Path
from typing import Any

import pytest

from dissectors.capture.source import open_raw
from pipelines.storage import filesystem
from tests.cluster.runs import BUCKET, SAMPLES, SITE, Out, brokerscope
from tests.cluster.servers import HOST, SECRET, ObjectStore, free_port

CAPTURES = f"s3://{BUCKET}/samples"
WHOLE = {"records", "tables", "analysis.json", "forensics.jsonl", "report.html"}


@pytest.mark.parametrize(
    ("scheme", "engine"), [("s3", "local"), ("s3a", "local"), ("s3a", "spark")], ids=lambda value: str(value)
)
def test_the_rows_are_those_of_a_run_over_local_files(
    store: ObjectStore, expected: Out, tmp_path: Path, scheme: str, engine: str
) -> None:
    out = f"{scheme}://{BUCKET}/out-{scheme}-{engine}"
    captures = [f"{scheme}://{BUCKET}/samples"]
    made = Out.made_of(captures, out, tmp_path, "--engine", engine)
    assert made.differs(expected) == {}
    assert made.entries() == WHOLE
    assert SECRET not in made.printed
    page, local = (filesystem.read(f"{root}/report.html") or b"" for root in (out, expected.root))
    assert abs(len(page) - len(local)) < 0.02 * len(local)  # it has the records too: only paths differ


def test_another_run_replaces_all_of_the_first(store: ObjectStore, expected: Out, tmp_path: Path) -> None:
    out = f"s3://{BUCKET}/replaced"
    Out.made_of([f"{CAPTURES}/kafka-*"], out, tmp_path, "--engine", "local")
    again = Out.made_of([CAPTURES], out, tmp_path, "--engine", "local", "--quiet")
    assert again.differs(expected) == {}
    assert again.printed.split() == [f"{out}/report.html"]


def test_without_a_connector_of_hadoop_spark_reads_the_records_through_fsspec(
    store: ObjectStore, expected: Out, tmp_path: Path
) -> None:
    by_spark = ("--engine", "spark", "--conf", "spark.brokerscope.tableRows=0")
    made = Out.made_of([f"s3a://{BUCKET}/samples"], f"s3a://{BUCKET}/by-spark", tmp_path, *by_spark)
    assert made.differs(expected) == {}


@pytest.mark.parametrize(("engine", "of_bucket"), [("local", False), ("spark", False), ("spark", True)])
def test_what_spark_is_given_for_the_store_need_not_be_given_twice(
    store: ObjectStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str, of_bucket: bool
) -> None:
    name, out = "kafka-codecs.pcap", f"s3a://{BUCKET}/keys-{engine}-{of_bucket}"
    here = Out.made_of([str(SAMPLES / name)], tmp_path / "out", tmp_path, "--engine", "local")
    with monkeypatch.context() as patch:
        for variable in store.env:
            patch.delenv(variable)
        given = store.s3a
        if of_bucket:  # all others are elsewhere
            own = {name.replace(".s3a.", f".s3a.bucket.{BUCKET}."): value for name, value in given.items()}
            given = own | {"spark.hadoop.fs.s3a.endpoint": f"{HOST}:{free_port()}"}
        conf = [word for pair in given.items() for word in ("--conf", "=".join(pair))]
        done = brokerscope("analyze", f"s3a://{BUCKET}/samples/{name}", "-o", out, SITE, "--engine", engine, *conf)
    assert done.returncode == 0, done.stderr[-3000:]
    assert Out.read(out).differs(here) == {}
    written = [filesystem.read(f"{out}/{file}") or b"" for file in filesystem.find(out)]
    assert not any(SECRET.encode() in text for text in (done.stdout.encode(), done.stderr.encode(), *written))


def test_an_update_takes_what_is_new(store: ObjectStore, expected: Out, tmp_path: Path) -> None:
    lake, growing = f"s3a://{BUCKET}/lake", f"s3a://{BUCKET}/growing/samples"
    names = filesystem.find(CAPTURES)
    for some in (names[:4], names[4:]):
        for name in some:
            filesystem.write(f"{growing}/{name}", filesystem.read(f"{CAPTURES}/{name}") or b"")
        made = Out.made_of([growing], lake, tmp_path, "--update")
    assert {kind: len(rows) for kind, rows in made.rows.items()} == {k: len(rows) for k, rows in expected.rows.items()}
    assert made.entries() == WHOLE | {".lake"}


def test_a_run_that_fails_leaves_what_stood_there(store: ObjectStore, tmp_path: Path) -> None:
    out = f"s3://{BUCKET}/kept"
    before = Out.made_of([CAPTURES], out, tmp_path, "--engine", "local")
    filesystem.write(f"s3://{BUCKET}/foreign/samples/x.pcap", b"nothing of the sort")
    done = brokerscope("analyze", f"s3://{BUCKET}/foreign/samples/x.pcap", "-o", out, "--engine", "local")
    assert done.returncode == 3
    assert Out.read(out).differs(before) == {}
    assert Out.read(out).entries() == WHOLE


def test_what_no_run_wrote_is_not_replaced(store: ObjectStore) -> None:
    done = brokerscope("analyze", CAPTURES, "-o", f"s3://{BUCKET}", "--engine", "local")
    assert done.returncode == 2
    assert "which brokerscope did not write" in done.stderr
    assert filesystem.find(CAPTURES)


def test_only_the_beginning_of_a_large_capture_is_fetched_to_look_at_it(store: ObjectStore) -> None:
    url = f"s3://{BUCKET}/large/zeros.pcap"
    filesystem.write(url, bytes(32 << 20))
    with open_raw(url) as stream:
        fetched: list[int] = []
        cache: Any = stream.cache  # type: ignore[attr-defined]
        fetch = cache.fetcher

        def counted(start: int, end: int) -> bytes:
            fetched.append(end - start)
            data: bytes = fetch(start, end)
            return data

        cache.fetcher = counted
        assert stream.read(100) == bytes(100)
    assert fetched
    assert sum(fetched) < 8 << 20


def test_a_store_that_says_no_is_one_line(store: ObjectStore) -> None:
    done = brokerscope("analyze", f"s3://{BUCKET}-none/x", "-o", f"s3://{BUCKET}/none", "--engine", "local")
    assert done.returncode == 3
    assert len(done.stderr.splitlines()) <= 2
    assert "Traceback" not in done.stderr
    assert SECRET not in done.stderr
