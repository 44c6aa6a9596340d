"""What Spark is given for an object store is fsspec's too."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec.config
import pytest
from typer.testing import CliRunner

from pipelines import credentials, session, tasks
from pipelines.cli import app

SECRET = "planted-s3-secret"
S3A = {
    "spark.hadoop.fs.s3a.access.key": "us",
    "spark.hadoop.fs.s3a.secret.key": SECRET,
    "spark.hadoop.fs.s3a.endpoint": "store:9000",
    "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
    "spark.hadoop.fs.s3a.path.style.access": "true",
    "spark.hadoop.fs.s3a.endpoint.region": "eu-north-1",
}
LENT = {
    "key": "us",
    "secret": SECRET,
    "endpoint_url": "http://store:9000",
    "use_ssl": False,
    "config_kwargs": {"s3": {"addressing_style": "path"}},
    "client_kwargs": {"region_name": "eu-north-1"},
}


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """fsspec's configuration is what it was, after."""
    monkeypatch.setattr(fsspec.config, "conf", {})
    yield
    credentials.lend({})


def test_settings_of_s3a_are_options_of_s3fs() -> None:
    assert credentials.s3_options(S3A) == LENT
    assert credentials.s3_options({"spark.hadoop.fs.s3a.endpoint": "https://x"}) == {"endpoint_url": "https://x"}
    assert credentials.s3_options({"spark.hadoop.fs.s3a.endpoint": "x"}) == {"endpoint_url": "https://x"}
    anonymous = "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    assert credentials.s3_options({"spark.hadoop.fs.s3a.aws.credentials.provider": anonymous}) == {"anon": True}
    assert credentials.s3_options({"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.access.key": ""}) == {}


def test_what_fsspec_was_told_itself_goes_first_and_what_was_lent_can_be_lent_anew() -> None:
    fsspec.config.conf["s3"] = {"key": "theirs"}
    credentials.lend(S3A)
    assert fsspec.config.conf["s3"] == LENT | {"key": "theirs"}
    credentials.lend({"spark.hadoop.fs.s3a.secret.key": "other"})
    assert fsspec.config.conf["s3"] == {"key": "theirs", "secret": "other"}


def test_without_such_settings_nothing_is_touched() -> None:
    credentials.lend({"spark.driver.memory": "1g"})
    assert fsspec.config.conf == {}


def test_tasks_have_what_was_lent(spark: Any) -> None:
    def seen(item: object) -> tuple[dict[str, Any], str]:
        return fsspec.config.conf.get("s3", {}), " ".join(os.environ.values())

    credentials.lend(S3A)
    ((options, environment),) = tasks.collect(tasks.spread(spark, [1], tasks.each(seen)))
    assert options == LENT
    assert SECRET not in environment


def test_a_running_session_knows_its_settings(spark: Any) -> None:
    spark.conf.set("spark.hadoop.fs.s3a.access.key", "us")
    try:
        assert session.known(None, {"spark.a": "1"}).items() >= {
            ("spark.hadoop.fs.s3a.access.key", "us"),
            ("spark.a", "1"),
        }
    finally:
        spark.conf.unset("spark.hadoop.fs.s3a.access.key")


def test_a_setting_that_is_mistyped_does_not_show_its_value(tmp_path: Path) -> None:
    wrong = f"hadoop.fs.s3a.secret.key={SECRET}"
    done = CliRunner().invoke(app, ["analyze", "x.pcap", "-o", str(tmp_path / "out"), "--conf", wrong])
    assert done.exit_code == 2
    assert "hadoop.fs.s3a.secret.key" in done.output
    assert SECRET not in done.output
