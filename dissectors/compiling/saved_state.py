"""Reading state that an earlier run left: in a store, in a checkpoint. Who wrote it need not be trusted.

State is a pickle (`state.py`), and a pickle may name any function of Python to be called. So only what state
is made of can be named: classes of the parts that decode, plain containers, and few functions. Anything else is
refused, and nothing has run by then.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from dissectors.compiling.state import StateError

_PACKAGE = "dissectors."
_PARTS = ("compiling", "iggy", "kafka", "pulsar", "rows", "session", "tcp", "tls", "wire")
_MODULES = frozenset(
    f"dissectors.{name}" for name in ("engine", "limits", "options", "records", "release", "capture.fragments")
)
_PLAIN = frozenset(
    {
        ("array", "_array_reconstructor"),
        ("array", "array"),
        ("builtins", "bytearray"),
        ("builtins", "frozenset"),
        ("builtins", "list"),
        ("builtins", "set"),
        ("collections", "Counter"),
        ("collections", "OrderedDict"),
        ("collections", "defaultdict"),
        ("collections", "deque"),
        ("dissectors.compiling.state", "restore"),
        ("dissectors.kafka.decode", "api_version"),
        ("dissectors.session.exchange", "sent_again"),
        ("numpy", "dtype"),
        ("numpy", "ndarray"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy.core.multiarray", "_reconstruct"),  # numpy 1
    }
)

_GETATTR = (("builtins", "getattr"), (__name__, "_method"))  # the second one stands in state that was read once before


class StateReader(pickle.Unpickler):
    """Reads a pickle of state. Raises StateError where it names anything else."""

    def find_class(self, module: str, name: str) -> Any:
        """What a pickle may name."""
        if (module, name) in _GETATTR:
            return method_of
        if (module, name) in _PLAIN:
            return super().find_class(module, name)
        within = module.removeprefix(_PACKAGE)
        known = within != module and (within.partition(".")[0] in _PARTS or module in _MODULES)
        try:
            found = super().find_class(module, name) if known and "." not in name else None
        except (ImportError, AttributeError):
            raise StateError(f"{module}.{name} is of another release") from None
        if not isinstance(found, type) or found.__module__ != module:
            raise StateError(f"state does not hold {module}.{name}")
        return found


def read_state(data: bytes) -> Any:
    """The objects of a pickle of state. Raises StateError where it names what state does not hold.

    What is damaged may raise anything else.
    """
    return StateReader(io.BytesIO(data)).load()


def method_of(thing: object, name: str) -> Any:
    """A method of an object of state, which another one keeps to call it: what `getattr` in state becomes."""
    found = getattr(thing, name, None)
    if name.startswith("__") or isinstance(thing, type) or getattr(found, "__self__", None) is not thing:
        raise StateError(f"state does not hold {type(thing).__name__}.{name}")
    return found
