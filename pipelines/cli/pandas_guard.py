"""Keeps pandas out of commands that have no use for it: where it is installed, pyarrow imports it with the first array
that it makes, which costs as much time as reading a small capture.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import ModuleType


class _NoPandas:
    """An import hook for which there is no pandas."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name == "pandas":
            raise ImportError(name)


def without_pandas() -> None:
    """Let pyarrow look for pandas now, once, and not find it; other code may still import it."""
    if "pandas" in sys.modules:
        return
    import pyarrow as pa

    hook = _NoPandas()
    sys.meta_path.insert(0, hook)
    try:
        pa.array([None])
    finally:
        sys.meta_path.remove(hook)
