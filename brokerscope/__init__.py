"""Packet captures of message brokers, as typed records.

    import brokerscope

    cap = brokerscope.open("capture.pcap")
    cap.verdicts()
    cap.exchanges.where(api="Produce", slower_than="50ms").pandas()

Whole tables in one call: `brokerscope.dissect(…)`; what does not fit in memory: `brokerscope.iter_records(…)`; one
frame: `brokerscope.decode(…)`.
"""

from __future__ import annotations

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from brokerscope.capture import OpenCapture
    from brokerscope.capture import open_captures as open
    from brokerscope.frames import decode
    from dissectors import BrokerscopeError, InputError, Limits, Options, UsageError, dissect, iter_records

    __version__: str

_HOMES = {
    "BrokerscopeError": ("dissectors.errors", "BrokerscopeError"),
    "OpenCapture": ("brokerscope.capture", "OpenCapture"),
    "InputError": ("dissectors.errors", "InputError"),
    "Limits": ("dissectors.limits", "Limits"),
    "Options": ("dissectors.options", "Options"),
    "UsageError": ("dissectors.errors", "UsageError"),
    "decode": ("brokerscope.frames", "decode"),
    "dissect": ("dissectors.api", "dissect"),
    "iter_records": ("dissectors.api", "iter_records"),
    "open": ("brokerscope.capture", "open_captures"),
}
"""Name -> the module that has it, and its name there."""

__all__ = [
    "BrokerscopeError",
    "OpenCapture",
    "InputError",
    "Limits",
    "Options",
    "UsageError",
    "__version__",
    "decode",
    "dissect",
    "iter_records",
    "open",
]


def __getattr__(name: str) -> object:
    """Nothing is loaded before it is asked for: `python -m brokerscope` first prepares its process."""
    if name == "__version__":
        return _version()
    if name not in _HOMES:
        from dissectors.wording import did_you_mean

        raise AttributeError(f"module {__name__!r} has no attribute {name!r}; {did_you_mean(name, __all__)}")
    module, there = _HOMES[name]
    _import_module("dissectors")  # which prepares what is compiled
    return getattr(_import_module(module), there)


def __dir__() -> list[str]:
    return __all__


def _version() -> str:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return version("brokerscope")
    except PackageNotFoundError:  # run from its source, not installed
        return "0"
