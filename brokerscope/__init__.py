"""Packet captures of message brokers, as typed records.

    import brokerscope

    tables = brokerscope.dissect("capture.pcap", tables=["exchanges", "errors"])
    tables["exchanges"].to_pandas()

What does not fit in memory: `for table, batch in brokerscope.iter_records("captures/", brokerscope.Options()): …`
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dissectors import BrokerscopeError, InputError, Limits, Options, dissect, iter_records

    __version__: str

__all__ = ["BrokerscopeError", "InputError", "Limits", "Options", "__version__", "dissect", "iter_records"]


def __getattr__(name: str) -> Any:
    """Nothing is loaded before it is asked for: `python -m brokerscope` first prepares its process."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return _version() if name == "__version__" else getattr(import_module("dissectors"), name)


def __dir__() -> list[str]:
    return [*globals(), *__all__]


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("brokerscope")
    except PackageNotFoundError:  # run from its source, not installed
        return "0"
