"""What Spark was given for object stores (spark.hadoop.fs.…), for fsspec: nobody should have to give it twice.

    spark.hadoop.fs.s3a.NAME                 all buckets      spark.hadoop.fs.s3a.bucket.BUCKET.NAME   one
    spark.hadoop.fs.azure.NAME               all accounts     spark.hadoop.fs.azure.NAME.HOST          one
    spark.hadoop.fs.gs.NAME                  all buckets

Nothing of it is written anywhere: it stays in this process, and goes to workers inside of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from dissectors.capture import stores
from dissectors.capture.stores import Options, Place

Translation = Callable[[str], Options]
_HADOOP = "spark.hadoop."
_BUCKET = "bucket."


def _option(name: str) -> Translation:
    return lambda value: {name: value}


def _path_style(value: str) -> Options:
    return {"config_kwargs": {"s3": {"addressing_style": "path"}}} if value.lower() == "true" else {}


def _provider(value: str) -> Options:
    return {"anon": True} if "Anonymous" in value else {}


def _tenant(endpoint: str) -> Options:
    """https://login.microsoftonline.com/TENANT/oauth2/token"""
    return {"tenant_id": urlsplit(endpoint).path.strip("/").partition("/")[0]}


def _google(kind: str) -> Options:
    known = {"UNAUTHENTICATED": "anon", "APPLICATION_DEFAULT": "google_default", "COMPUTE_ENGINE": "cloud"}
    return {"token": known[kind.upper()]} if kind.upper() in known else {}


class Family(NamedTuple):
    """The settings of one kind of store."""

    scheme: str  # of its URLs, as fsspec calls it
    prefix: str
    options: Mapping[str, Translation]
    """Hadoop's name of a setting, after the prefix -> what fsspec's file system calls it."""


FAMILIES = (
    Family("s3", "fs.s3a.", {
        "access.key": _option("key"),
        "secret.key": _option("secret"),
        "session.token": _option("token"),
        "endpoint": _option("endpoint_url"),
        "endpoint.region": lambda value: {"client_kwargs": {"region_name": value}},
        "connection.ssl.enabled": lambda value: {"use_ssl": value.lower() != "false"},
        "path.style.access": _path_style,
        "aws.credentials.provider": _provider,
    }),
    Family("abfs", "fs.azure.", {
        "account.key": _option("account_key"),
        "account.oauth2.client.id": _option("client_id"),
        "account.oauth2.client.secret": _option("client_secret"),
        "account.oauth2.client.endpoint": _tenant,
        "sas.fixed.token": lambda value: {"sas_token": value.removeprefix("?")},
    }),
    Family("gs", "fs.gs.", {
        "project.id": _option("project"),
        "auth.type": _google,
        "auth.service.account.json.keyfile": _option("token"),
    }),
    Family("gs", "google.cloud.", {"auth.service.account.json.keyfile": _option("token")}),
)  # fmt: skip


def places(settings: Mapping[str, str]) -> dict[Place, Options]:
    """Options of fsspec's file systems that mean what settings of Spark say. settings: all of a session, by names."""
    given: dict[Place, Options] = {}
    # those for all come first: what is said of one bucket or account is said beside them
    for place, options in sorted(_said(settings), key=lambda said: said[0]):
        given.setdefault(place, dict(given.get((place[0], ""), {}))).update(options)
    for options in given.values():
        endpoint = options.get("endpoint_url", "://")
        if "://" not in endpoint:  # Hadoop has them without, and secure unless it is told otherwise
            options["endpoint_url"] = f"http{'s' if options.get('use_ssl', True) else ''}://{endpoint}"
    return given


def _said(settings: Mapping[str, str]) -> Iterator[tuple[Place, Options]]:
    for setting, value in settings.items():
        for family in FAMILIES:
            prefix = _HADOOP + family.prefix
            if setting.startswith(prefix) and value.strip():
                for name, translated in family.options.items():
                    host = _host(setting.removeprefix(prefix), name)
                    options = translated(value.strip()) if host is not None else {}
                    if options:
                        yield (family.scheme, host or ""), options


def _host(setting: str, name: str) -> str | None:
    """The bucket or account that a setting is about, "" for all of them; None where it is not the one of this name."""
    if setting == name:
        return ""
    if setting.startswith(_BUCKET) and setting.endswith(f".{name}"):
        return setting[len(_BUCKET) : -len(name) - 1] or None
    host = setting.removeprefix(f"{name}.")
    return host if host != setting and ".core." in host else None


def use(settings: Mapping[str, str]) -> None:
    """Let fsspec use what a session of Spark was given, from now on, here and in tasks. fsspec's own settings win."""
    stores.set_options(places(settings))
