"""State that an earlier run left is read; what somebody else put into its place is refused, and runs nothing."""

import os
import pickle
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

import pytest

from dissectors.compiling.saved_state import read_state
from dissectors.compiling.state import StateError
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import Conn


class Calls:
    """A pickle that calls a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.reduced = function, arguments

    def __reduce__(self) -> tuple[Any, ...]:
        return self.reduced


def named(module: str, name: str) -> bytes:
    """A pickle that names something."""
    return pickle.PROTO + b"\x04" + b"".join(
        pickle.SHORT_BINUNICODE + bytes([len(text)]) + text.encode() for text in (module, name)
    ) + pickle.STACK_GLOBAL + pickle.STOP  # fmt: skip


@pytest.mark.parametrize(
    "value", [Limits(), Options(), {1, 2}, deque([1]), defaultdict(list, {1: [2]}), [b"x", None, 1.5]], ids=str
)
def test_what_state_is_made_of_is_read(value: Any) -> None:
    assert read_state(pickle.dumps(value)) == value


@pytest.mark.parametrize("function", [os.system, eval, exec, __import__, open, os.remove], ids=str)
def test_functions_of_python_are_not_called(function: Any, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("still here", encoding="utf-8")
    with pytest.raises(StateError, match="state does not hold"):
        read_state(pickle.dumps(Calls(function, str(victim))))
    assert victim.read_text(encoding="utf-8") == "still here"


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("dissectors.engine", "Engine.__init__.__globals__"),
        ("dissectors.engine", "gc"),
        ("dissectors.workers", "Workers"),
        ("dissectors.run", "Run"),
        ("dissectors.compiling.build", "subprocess"),
        ("dissectors.tcp.packed", "zstandard"),
        ("dissectors.tcp.packed", "FunctionType"),
        ("dissectorsx.engine", "Engine"),
    ],
)
def test_nothing_else_of_this_program_is_named(module: str, name: str) -> None:
    with pytest.raises(StateError, match="state does not hold"):
        read_state(named(module, name))


@pytest.mark.parametrize(("module", "name"), [("dissectors.kafka.gone", "Orphan"), ("dissectors.engine", "Gone")])
def test_what_another_release_had_is_said_to_be_of_it(module: str, name: str) -> None:
    with pytest.raises(StateError, match="of another release"):
        read_state(named(module, name))


def test_an_attribute_that_is_no_method_of_an_object_is_not_reached() -> None:
    for name in ("__class__", "__init__", "__reduce_ex__"):
        with pytest.raises(StateError):
            read_state(pickle.dumps(Calls(getattr, Limits(), name)))
    with pytest.raises(StateError):
        read_state(pickle.dumps(Calls(getattr, Conn, "_make")))
