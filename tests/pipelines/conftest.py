from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that use Spark run in one worker: a session costs seconds."""
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.xdist_group("spark"))


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    pytest.importorskip("pyspark")
    from pipelines import session

    running = session.start("local[2]", light=True)
    yield running
    running.stop()


@pytest.fixture(scope="session")
def samples() -> list[str]:
    """Every capture in samples/."""
    return sorted(str(p) for p in SAMPLES.iterdir() if p.suffix in (".pcap", ".pcapng"))
