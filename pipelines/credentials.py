"""What Spark was given for an object store (spark.hadoop.fs.s3a.…), for fsspec: nobody should have to give it twice.

Nothing of it is written anywhere: it goes into fsspec's configuration of this process, and to workers inside of tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import partial
from typing import Any

Options = dict[str, Any]

_PREFIX = "spark.hadoop.fs.s3a."
_PROTOCOL = "s3"  # fsspec's name for s3a: too
_lent: Options = {}


def _path_style(value: str) -> Options:
    return {"config_kwargs": {"s3": {"addressing_style": "path"}}} if value.lower() == "true" else {}


def _provider(value: str) -> Options:
    return {"anon": True} if "Anonymous" in value else {}


# Hadoop's name of a setting -> what s3fs calls it
S3A: dict[str, Callable[[str], Options]] = {
    "access.key": lambda value: {"key": value},
    "secret.key": lambda value: {"secret": value},
    "session.token": lambda value: {"token": value},
    "endpoint": lambda value: {"endpoint_url": value},
    "endpoint.region": lambda value: {"client_kwargs": {"region_name": value}},
    "connection.ssl.enabled": lambda value: {"use_ssl": value.lower() != "false"},
    "path.style.access": _path_style,
    "aws.credentials.provider": _provider,
}


def s3_options(settings: Mapping[str, str]) -> Options:
    """Options of s3fs that mean what settings of Spark say. settings: all of a session, by their names."""
    options: Options = {}
    for name, translated in S3A.items():
        value = settings.get(_PREFIX + name, "").strip()
        options |= translated(value) if value else {}
    endpoint = options.get("endpoint_url", "://")
    if "://" not in endpoint:  # Hadoop has them without, and secure unless it is told otherwise
        options["endpoint_url"] = f"http{'s' if options.get('use_ssl', True) else ''}://{endpoint}"
    return options


def lend(settings: Mapping[str, str]) -> None:
    """Let fsspec use what a session of Spark was given, from now on, here and in tasks. fsspec's own settings win."""
    _use(s3_options(settings))


def carried(task: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """The same task, on a worker that gets what was lent here."""
    return partial(_with, dict(_lent), task) if _lent else task


def _with(options: Options, task: Callable[[Any], Any], batches: Any) -> Any:
    _use(options)
    return task(batches)


def _use(options: Options) -> None:
    if options == _lent:
        return
    import fsspec.config

    conf = fsspec.config.conf
    theirs = {key: value for key, value in conf.get(_PROTOCOL, {}).items() if key not in _lent or _lent[key] != value}
    _lent.clear()
    _lent.update(options)
    conf[_PROTOCOL] = {**deepcopy(options), **theirs}
