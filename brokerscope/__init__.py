"""Packet captures of message brokers, as typed records.

    import brokerscope

    tables = brokerscope.dissect("capture.pcap", tables=["exchanges", "errors"])
    tables["exchanges"].to_pandas()

What does not fit in memory: `for table, batch in brokerscope.iter_records("captures/", brokerscope.Options()): …`
"""

from __future__ import annotations

from dissectors import BrokerscopeError, InputError, Limits, Options, dissect, iter_records

__version__: str

__all__ = ["BrokerscopeError", "InputError", "Limits", "Options", "__version__", "dissect", "iter_records"]


def __getattr__(name: str) -> str:
    """The version when it is asked for: what reads it costs a tenth of a small capture."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("brokerscope")
    except PackageNotFoundError:  # run from its source, not installed
        return "0"
