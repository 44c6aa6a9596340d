"""A standalone cluster whose workers have no brokerscope and share no disk: results go to an S3 server."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from brokerscope import __main__ as main
from tests.cluster import servers
from tests.cluster.runs import BUCKET, ROOT, SAMPLES, SITE, Out, brokerscope
from tests.cluster.servers import SECRET, ObjectStore, Standalone
from tests.pipelines.killing import STAGES

CAPTURES = f"s3a://{BUCKET}/samples"
SMALL = [f"{CAPTURES}/{name}.pcap" for name in ("kafka-codecs", "pulsar-corrupted", "iggy-messages")]
MANY_PARTS = ("--conf", "spark.sql.shuffle.partitions=3", "--conf", "spark.brokerscope.splitBytes=50000")


@pytest.fixture(scope="module")
def cluster(store: ObjectStore, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    with servers.standalone(tmp_path_factory.mktemp("standalone") / "cluster", store.env) as running:
        yield running


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Out:
    """What one process makes of some captures."""
    folder = tmp_path_factory.mktemp("small")
    local = [str(SAMPLES / path.rpartition("/")[2]) for path in SMALL]
    return Out.made_of(local, folder / "out", folder, "--engine", "local")


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The options of `analyze` that `brokerscope package` names."""
    made = brokerscope("package", "-o", str(tmp_path_factory.mktemp("archive") / "brokerscope.tar.gz"))
    assert made.returncode == 0, made.stderr
    return made.stdout.split()


def test_workers_without_the_package_are_told_how_to_get_it(cluster: Standalone, bare_python: Path) -> None:
    out = f"s3a://{BUCKET}/lacking"
    done = brokerscope("analyze", CAPTURES, "-o", out, "--master", cluster.master, *cluster.conf(bare_python))
    assert done.returncode == 4
    assert re.match("brokerscope: the workers lack (dissectors|pipelines): ", done.stderr.splitlines()[-1])
    assert "`brokerscope package -o FILE.tar.gz`" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_archive_brings_the_package_and_the_rows_are_those_of_one_process(
    cluster: Standalone, archive: list[str], bare_python: Path, expected: Out, tmp_path: Path
) -> None:
    by_spark = ("--conf", "spark.brokerscope.tableRows=0")  # whose workers then write the tables too
    options = ("--master", cluster.master, *cluster.conf(bare_python), *archive, *MANY_PARTS, *by_spark)
    made = Out.made_of([CAPTURES], f"s3a://{BUCKET}/standalone", tmp_path, *options)
    assert made.differs(expected) == {}
    assert SECRET not in made.printed


def test_an_archive_with_dependencies_is_all_that_workers_need_beside_spark(
    cluster: Standalone, small: Out, tmp_path: Path
) -> None:
    packed = brokerscope("package", "-o", str(tmp_path / "all.tar.gz"), "--dependencies", "--with", "s3fs")
    assert packed.returncode == 0, packed.stderr
    python = servers.empty_python(tmp_path / "empty")
    options = ("--master", cluster.master, *cluster.conf(python), *packed.stdout.split())
    made = Out.made_of(SMALL, f"s3a://{BUCKET}/dependencies", tmp_path, *options)
    assert made.differs(small) == {}


def test_spark_submit_runs_it_with_its_own_settings(
    cluster: Standalone, store: ObjectStore, archive: list[str], bare_python: Path, small: Out
) -> None:
    out = f"s3a://{BUCKET}/submitted"
    conf = [*cluster.conf(bare_python), *archive, "--conf", f"spark.pyspark.driver.python={sys.executable}"]
    command = [str(servers.spark_home() / "bin" / "spark-submit"), "--master", cluster.master, *conf, main.__file__]
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAVA_HOME": str(servers.java_home())}
    words = ["analyze", *SMALL, "-o", out, SITE]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "brokerscope: Spark (by spark-submit)" in done.stdout  # where spark-submit puts both
    assert Out.read(out).differs(small) == {}
    assert SECRET not in done.stdout + done.stderr


def test_executors_and_a_worker_killed_on_the_way_change_no_row(
    cluster: Standalone, archive: list[str], bare_python: Path, expected: Out, tmp_path: Path
) -> None:
    out = f"s3a://{BUCKET}/killed"
    pairs = [word for word in (*cluster.conf(bare_python), *archive, *MANY_PARTS) if word != "--conf"]
    command = [sys.executable, "-m", "tests.pipelines.killing", cluster.master, out, CAPTURES, "--markers"]
    command += [str(tmp_path), "--site", "(samples)", *(word for pair in pairs for word in ("--conf", pair))]
    job = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": str(ROOT)}
    )
    while job.poll() is None and not (tmp_path / "cut").exists():
        time.sleep(0.05)
    victim = cluster.workers[1]
    os.killpg(victim.pid, signal.SIGKILL)  # with the executor that runs in its session, if there is one now
    printed, errors = job.communicate()
    assert job.returncode == 0, errors[-3000:]
    assert printed.split() == list(STAGES)
    records = {kind: rows for kind, rows in expected.rows.items() if kind.startswith("records/")}
    assert Out.read(out).differs(Out("", records, "")) == {}


def test_workers_that_write_where_the_driver_cannot_read_end_the_job_at_once(
    store: ObjectStore, archive: list[str], bare_python: Path, tmp_path: Path
) -> None:
    if not servers.can_unshare():
        pytest.skip("needs mount namespaces: a process may not have a view of the file systems of its own here")
    shared = tmp_path / "shared"
    shared.mkdir()
    with servers.standalone(tmp_path / "cluster", store.env, unshared=shared) as cluster:
        options = ("--master", cluster.master, *cluster.conf(bare_python), *archive)
        done = brokerscope("analyze", CAPTURES, "-o", str(shared / "out"), *options)
    assert done.returncode == 4
    assert "does not share this place" in done.stderr.splitlines()[-1]
    assert list(shared.iterdir()) == []
