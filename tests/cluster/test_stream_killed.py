"""A stream that is killed at any moment and started again gives each row once."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pyarrow.parquet as pq

import dissectors
from tests.cluster import servers
from tests.cluster.runs import ROOT
from tests.pipelines.cutting import cut

KILLS = 5
HOURS = 12
RING = 2  # captures that are kept
DELTA_SPARK = "pyspark==4.2.0"  # Delta 4.4.0 has no release for a later one
START_S = 90  # within which a session has begun, also on a busy machine


def command(*words: str) -> list[str]:
    return [sys.executable, "-m", "tests.cluster.killed_stream", *words]


def micro_batches(checkpoint: Path) -> int:
    return len([*(checkpoint / "commits").glob("[0-9]*")])


def test_a_stream_killed_five_times_gives_the_rows_of_one_batch(tmp_path: Path) -> None:
    seed = random.randrange(1 << 30)
    chance = random.Random(seed)
    captures, out, checkpoint = tmp_path / "captures", tmp_path / "out", tmp_path / "checkpoint"
    captures.mkdir()
    sample = ROOT / "samples" / "kafka-transactions.pcap"
    cut(sample, captures, HOURS)
    words = [str(captures), str(out), str(checkpoint)]
    for _ in range(KILLS):
        before = micro_batches(checkpoint)
        running = subprocess.Popen(
            command(*words), cwd=ROOT, start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + START_S
        while micro_batches(checkpoint) == before and running.poll() is None and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(chance.uniform(0, 1))
        os.killpg(running.pid, signal.SIGKILL)  # with its Java
        running.wait()
    assert 0 < micro_batches(checkpoint) < HOURS, "it was killed on its way"
    subprocess.run(command(*words, "--to-the-end"), cwd=ROOT, check=True, capture_output=True)
    given = _committed(out)
    found = Counter(repr(sorted(row.items())) for path in given for row in pq.read_table(path).to_pylist())
    files = sorted(map(str, captures.iterdir()))
    expected = dissectors.dissect(files, tables=("exchanges",))["exchanges"].to_pylist()
    assert found == Counter(repr(sorted(row.items())) for row in expected), f"seed {seed}"


def test_a_stream_over_a_ring_killed_on_its_way_merges_to_the_rows_of_one_batch(tmp_path: Path) -> None:
    out = tmp_path / "out"
    expected = through_a_ring(tmp_path, sys.executable, "--merged")
    merged: dict[tuple[str, str], str] = {}
    folders = sorted(out.glob("batch=*"), key=lambda path: int(path.name.partition("=")[2]))
    for folder in folders:
        rows = [row for path in folder.glob("*.parquet") for row in pq.ParquetFile(path).read().to_pylist()]
        keys = [(row["site"], row["exchange_id"]) for row in rows]
        assert len(keys) == len(set(keys)), "a MERGE takes each row at most once"
        for key, row in zip(keys, rows, strict=True):
            merged.pop(key, None)
            if row["kind"] != "withdrawn":
                merged[key] = repr(row)
    assert Counter(merged.values()) == expected


def test_delta_has_the_rows_of_one_batch_by_the_documented_merge(tmp_path: Path) -> None:
    jars = servers.classpath("delta/pom.xml", "Delta", tmp_path, "-DincludeGroupIds=io.delta,io.unitycatalog")
    python = servers.older_spark(tmp_path / "python", DELTA_SPARK, "delta-spark==4.4.0", "importlib_metadata")
    conf = {
        "spark.jars": jars.replace(":", ","),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    words = [word for setting in conf.items() for word in ("--conf", "=".join(setting))]
    expected = through_a_ring(tmp_path, str(python), "--by-merge", *words)
    rows = pq.read_table(tmp_path / "out" / "merged.parquet").to_pylist()
    assert Counter(map(repr, rows)) == expected


def through_a_ring(tmp_path: Path, python: str, *options: str) -> Counter[str]:
    """Rows that one batch has, of captures that a stream takes while they go as soon as an offset names them.

    Two of them change places, and the stream is killed before it commits what it has just been given.
    """
    store, every, checkpoint = (tmp_path / name for name in ("store", "every", "checkpoint"))
    for folder in (store, every):
        folder.mkdir()
    pieces = [Path(name) for name in cut(ROOT / "samples" / "kafka-transactions.pcap", every, HOURS)]
    order = [0, 1, 3, 2, *range(4, HOURS)]
    words = [python, *command(str(store), str(tmp_path / "out"), str(checkpoint), *options)[1:]]
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    with (tmp_path / "stream.log").open("wb") as log:
        running: subprocess.Popen[bytes] | None = None
        for number, piece in enumerate(order):
            if running is None:
                running = subprocess.Popen(
                    words, cwd=tmp_path, env=env, start_new_session=True, stdout=subprocess.PIPE, stderr=log
                )
            shutil.copy(pieces[piece], store)
            assert begins(running, number), (tmp_path / "stream.log").read_text()[-3000:]
            if number >= RING:
                (store / pieces[order[number - RING]].name).unlink(missing_ok=True)
            if number % 4 == 3:
                for path in store.iterdir():
                    if number > RING:
                        path.unlink()
                os.killpg(running.pid, signal.SIGKILL)
                running.communicate()
                running = None
        if running is not None:
            os.killpg(running.pid, signal.SIGKILL)
            running.communicate()
        ended = subprocess.run([*words, "--to-the-end"], cwd=tmp_path, env=env, check=False, stdout=log, stderr=log)
    assert ended.returncode == 0, (tmp_path / "stream.log").read_text()[-3000:]
    rows = dissectors.dissect([*map(str, pieces)], tables=("exchanges",))["exchanges"].to_pylist()
    return Counter(repr(row).replace(str(every), str(store)) for row in rows)


def begins(stream: subprocess.Popen[bytes], number: int) -> bool:
    """Wait until a stream that prints its micro-batches begins one; whether it did, in time and before it ended."""
    too_late = threading.Timer(START_S, stream.kill)
    too_late.start()
    assert stream.stdout is not None
    try:
        return f"{number}\n".encode() in iter(stream.stdout.readline, b"")
    finally:
        too_late.cancel()


def _committed(out: Path) -> list[Path]:
    """The files that Spark's own log of the folder says are part of it."""
    files: dict[Path, bool] = {}
    for log in sorted((out / "_spark_metadata").glob("[0-9]*"), key=lambda path: path.name):
        for line in log.read_text(encoding="utf-8").splitlines()[1:]:
            entry = json.loads(line)
            files[Path(unquote(urlsplit(entry["path"]).path))] = entry["action"] == "add"
    return [path for path, there in files.items() if there]
