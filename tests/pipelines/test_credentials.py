"""What Spark is given for an object store is fsspec's too."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec.config
import pytest

from dissectors.capture import stores
from dissectors.capture.files import _heads
from pipelines.spark import credentials, session, tasks
from pipelines.spark.application import Application
from tests.commands import attempt

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


ACCOUNT = "ours.dfs.core.windows.net"
AZURE = {
    f"spark.hadoop.fs.azure.account.key.{ACCOUNT}": SECRET,
    "spark.hadoop.fs.azure.account.auth.type": "OAuth",
    "spark.hadoop.fs.azure.account.oauth2.client.id": "app",
    "spark.hadoop.fs.azure.account.oauth2.client.secret": "planted-azure-secret",
    "spark.hadoop.fs.azure.account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
    "spark.hadoop.fs.azure.sas.fixed.token.theirs.dfs.core.windows.net": "?sv=1&sig=planted-signature",
}
OAUTH = {"client_id": "app", "client_secret": "planted-azure-secret", "tenant_id": "tenant-1"}


@pytest.fixture(autouse=True)
def untouched(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No options are set after, and fsspec's configuration is what it was."""
    monkeypatch.setattr(fsspec.config, "conf", {})
    yield
    credentials.use({})


def test_settings_of_s3a_are_options_of_s3fs() -> None:
    everywhere = ("s3", "")
    assert credentials.places(S3A) == {everywhere: LENT}
    for endpoint in ("https://x", "x"):
        told = {"spark.hadoop.fs.s3a.endpoint": endpoint}
        assert credentials.places(told) == {everywhere: {"endpoint_url": "https://x"}}
    anonymous = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"
    }
    assert credentials.places(anonymous) == {everywhere: {"anon": True}}
    assert credentials.places({"spark.driver.memory": "1g", "spark.hadoop.fs.s3a.access.key": ""}) == {}


def test_a_bucket_may_have_settings_of_its_own() -> None:
    bucket = "logs.of.ours"
    own = {"access.key": "them", "endpoint": "other", "connection.ssl.enabled": "true", "endpoint.region": "r"}
    credentials.use(S3A | {f"spark.hadoop.fs.s3a.bucket.{bucket}.{name}": value for name, value in own.items()})
    changed = {
        "key": "them", "endpoint_url": "https://other", "use_ssl": True, "client_kwargs": {"region_name": "r"},
    }  # fmt: skip
    for scheme in ("s3", "s3a"):
        assert stores.options(f"{scheme}://{bucket}/x.pcap") == LENT | changed
        assert stores.options(f"{scheme}://logs/x.pcap") == LENT


def test_settings_of_azure_are_options_of_adlfs_by_account() -> None:
    credentials.use(AZURE)
    for scheme in ("abfs", "abfss"):
        assert stores.options(f"{scheme}://box@{ACCOUNT}/day/x.pcap") == OAUTH | {"account_key": SECRET}
        assert stores.options(f"{scheme}://box@another.dfs.core.windows.net/x.pcap") == OAUTH
    theirs = stores.options("abfs://box@theirs.dfs.core.windows.net/")
    assert theirs == OAUTH | {"sas_token": "sv=1&sig=planted-signature"}
    assert stores.options("s3://box/x.pcap") == {}


@pytest.mark.parametrize("prefix", ["google.cloud.", "fs.gs."])
def test_settings_of_google_are_options_of_gcsfs(prefix: str) -> None:
    credentials.use(
        {
            f"spark.hadoop.{prefix}auth.service.account.json.keyfile": "/etc/key.json",
            "spark.hadoop.fs.gs.project.id": "ours",
        }
    )
    assert stores.options("gs://box/x.pcap") == {"token": "/etc/key.json", "project": "ours"}
    credentials.use({"spark.hadoop.fs.gs.auth.type": "UNAUTHENTICATED"})
    assert stores.options("gs://box/x.pcap") == {"token": "anon"}
    credentials.use({"spark.hadoop.fs.gs.auth.type": "USER_CREDENTIALS"})
    assert stores.options("gs://box/x.pcap") == {}


def test_what_fsspec_was_told_itself_goes_first_and_what_was_lent_can_be_lent_anew() -> None:
    fsspec.config.conf["s3"] = {"key": "theirs"}
    credentials.use(S3A)
    assert stores.options("s3a://box/x") == {name: value for name, value in LENT.items() if name != "key"}
    credentials.use({"spark.hadoop.fs.s3a.secret.key": "other"})
    assert stores.options("s3a://box/x") == {"secret": "other"}
    assert fsspec.config.conf == {"s3": {"key": "theirs"}}


def test_file_systems_are_opened_with_what_was_lent_for_their_place() -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed: make test-cluster has it")
    credentials.use(S3A | {"spark.hadoop.fs.s3a.bucket.box.secret.key": "another-secret"})
    for bucket, secret in (("box", "another-secret"), ("crate", SECRET)):
        fs, inside = stores.file_system(f"s3a://{bucket}/x.pcap")
        assert (fs.key, fs.secret, inside) == ("us", secret, f"{bucket}/x.pcap")


def test_names_below_an_account_keep_it() -> None:
    url = f"abfs://box@{ACCOUNT}/day"
    assert _heads(url, "box/day") == (f"abfs://box@{ACCOUNT}", "box")
    assert _heads("abfs://net@ours.net", "net") == ("abfs://net@ours.net", "net")
    assert _heads("s3a://box/day", "box/day") == ("s3a://", "")
    assert _heads("hdfs://host:1/day", "/day") == ("hdfs://host:1", "")
    assert _heads("memory://box/day", "/box/day") == ("memory:/", "")


def test_tasks_use_the_same_credentials(spark: Any) -> None:
    def seen(item: object) -> tuple[dict[str, Any], str]:
        return stores.options("s3://box/x"), " ".join(os.environ.values())

    credentials.use(S3A)
    ((options, environment),) = tasks.call(Application.of(spark), seen, [1])
    assert options == LENT
    assert SECRET not in environment


def test_no_secret_is_in_what_is_said_of_a_store_that_cannot_be_opened(tmp_path: Path) -> None:
    conf = [word for pair in AZURE.items() for word in ("--conf", "=".join(pair))]
    for command in (["-o", str(tmp_path / "out"), f"abfs://box@{ACCOUNT}/x.pcap"],):
        done = attempt("analyze", "--engine", "local", *command, *conf)
        assert done.exit_code != 0
        assert not any(secret in done.output for secret in (SECRET, "planted-azure-secret", "planted-signature"))


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
    done = attempt("analyze", "x.pcap", "-o", tmp_path / "out", "--conf", wrong)
    assert done.exit_code == 2
    assert "hadoop.fs.s3a.secret.key" in done.output
    assert SECRET not in done.output
