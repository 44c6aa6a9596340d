"""Packet captures of message brokers, as typed records.

    import brokerscope

    tables = brokerscope.dissect("capture.pcap", tables=["exchanges", "errors"])
    tables["exchanges"].to_pandas()

What does not fit in memory: `for table, batch in brokerscope.iter_records("captures/", brokerscope.Options()): …`
"""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version

from dissectors import BrokerscopeError, InputError, Limits, Options, dissect, iter_records

try:
    __version__ = version("brokerscope")
except PackageNotFoundError:  # run from its source, not installed
    __version__ = "0"

__all__ = ["BrokerscopeError", "InputError", "Limits", "Options", "__version__", "dissect", "iter_records"]
