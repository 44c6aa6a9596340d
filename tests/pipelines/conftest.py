from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from typer.testing import Result

from pipelines.executors.local import LocalExecutor
from tests import chromium
from tests.commands import attempt

SAMPLES = Path(__file__).parents[2] / "samples"


@pytest.hookimpl(tryfirst=True)  # before xdist reads groups from the markers
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use Spark, or a browser, run in one worker: to start one costs seconds."""
    for item in items:
        for fixture in {"spark", "browser"}.intersection(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(fixture))


INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""Queries over few rows: to compile them takes longer than to run them. Those that start a process compile."""


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from pipelines.spark import session

    running = session.start("local[2]", light=True, conf=INTERPRETED)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def executor() -> LocalExecutor:
    """Runs the tasks of a job in this process."""
    return LocalExecutor(1)


@pytest.fixture(scope="session")
def samples() -> list[str]:
    """Every capture in samples/."""
    return sorted(str(p) for p in SAMPLES.iterdir() if p.suffix in (".pcap", ".pcapng"))


@pytest.fixture(scope="session")
def browser() -> Iterator[chromium.Tab]:
    """A real browser."""
    if chromium.path() is None:
        pytest.skip("there is no Chromium here")
    pytest.importorskip("websocket", reason="the client of the DevTools protocol is not installed")
    with chromium.tab() as tab:
        yield tab


class Analysed(NamedTuple):
    """What `analyze` left behind, and what it printed."""

    out: Path
    foreign: Path  # the one file that is no capture
    result: Result


@pytest.fixture(scope="session")
def analysed(spark: Any, samples: list[str], tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """`brokerscope analyze` over the samples and a file that is no capture, once for all tests."""

    folder = tmp_path_factory.mktemp("analysed")
    foreign = folder / "foreign.pcap"
    foreign.write_bytes(b"nothing of the sort")
    out = folder / "out"
    wanted = [*samples, str(foreign), "-o", str(out), "--by", "client", "--bucket", "1s"]
    return Analysed(out, foreign, attempt("analyze", *wanted))
