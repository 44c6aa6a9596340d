"""Sessions of Spark in tests."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def settings(spark: Any, wanted: dict[str, str]) -> Iterator[None]:
    """Settings of a session, changed for a while."""
    before = {key: spark.conf.get(key, None) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            if old is None:
                spark.conf.unset(key)
            else:
                spark.conf.set(key, old)
