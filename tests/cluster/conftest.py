"""Servers that these tests share. `make test-cluster` runs them; `make test` does not."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster import servers
from tests.cluster.runs import BUCKET, SAMPLES, Out, upload_samples
from tests.cluster.servers import ObjectStore


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ObjectStore]:
    """An S3 server with the samples in it, known to this process by its environment."""
    with servers.object_store(tmp_path_factory.mktemp("s3")) as running, pytest.MonkeyPatch.context() as patch:
        for name, value in running.env.items():
            patch.setenv(name, value)
        upload_samples(f"s3://{BUCKET}")
        yield running


@pytest.fixture(scope="session")
def expected(tmp_path_factory: pytest.TempPathFactory) -> Out:
    """What a local run over local files makes."""
    folder = tmp_path_factory.mktemp("expected")
    return Out.made_of([str(SAMPLES)], folder / "out", folder, "--engine", "local")


@pytest.fixture(scope="session")
def bare_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Python without brokerscope."""
    return servers.bare_python(tmp_path_factory.mktemp("bare") / "python")
