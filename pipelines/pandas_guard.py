"""Keeps pandas out of processes that have no use for it.

Where it is installed, pyarrow imports it with the first array that it makes, and PySpark with the first value that it
gives to Java: 0.4 CPU seconds, which is more than a small capture takes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType


class _NoPandas:
    """An import hook for which there is no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError(name)


_kept_out = False


def is_without_pandas() -> bool:
    """Whether `without_pandas` was called in this process."""
    return _kept_out


def without_pandas() -> None:
    """Let pyarrow look for pandas now, once, and not find it; other code may still import it."""
    global _kept_out
    _kept_out = True
    import pyarrow as pa

    with hidden():
        pa.array([None])


@contextmanager
def hidden() -> Iterator[None]:
    """Imports of pandas fail inside, unless it has been imported before."""
    hook = _NoPandas()
    sys.meta_path.insert(0, hook)
    try:
        yield
    finally:
        sys.meta_path.remove(hook)
