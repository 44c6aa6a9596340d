"""brokerscope: packet captures of message brokers, as typed records.

import dissectors
tables = dissectors.dissect(["capture.pcap"], tables=["exchanges", "errors"])
tables["exchanges"].to_pandas()

Names are loaded when they are used: a part of this package does not cost what the whole does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dissectors.compiling import STATE as STATE

if TYPE_CHECKING:
    from dissectors.api import dissect, iter_records
    from dissectors.errors import BrokerscopeError, InputError, UsageError
    from dissectors.limits import Limits
    from dissectors.options import Options

__all__ = ["BrokerscopeError", "InputError", "Limits", "Options", "UsageError", "dissect", "iter_records"]

_HOMES = {
    "BrokerscopeError": "errors",
    "InputError": "errors",
    "Limits": "limits",
    "Options": "options",
    "UsageError": "errors",
    "dissect": "api",
    "iter_records": "api",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"dissectors.{_HOMES[name]}"), name)
