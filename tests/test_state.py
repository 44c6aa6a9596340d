"""State that moves between processes: every class whose objects are carried gives back what they held."""

from __future__ import annotations

import copyreg
import io
import json
import os
import pickle
import pkgutil
import subprocess
import sys
from array import array
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.compiling import loading
from dissectors.compiling.state import Derived, StateError, carried, restore, state_layout, state_of
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from dissectors.wire.arrays import Numbers

SAMPLES = Path(__file__).parent.parent / "samples"
LIMITS = Limits(block_packets=7)
ATOMS = (int, str, bytes, float, type(None), type, Sink)
VALUES: Mapping[str, Any] = {
    "cython.bint": True, "cython.": 7, "str": "text", "bytes": b"bytes", "list": [], "dict": {"a": 1}, "tuple": (1, 2),
    "set": {1}, "array": array("q"), "Annotated[list[int], 'long long[16]']": list(range(16)),
    "Options": Options(), "Sink": Sink(["exchanges"]),
}  # fmt: skip
VERSIONS = "import tests.test_state as t; print(t.json.dumps(t.versions()))"


@cache
def classes() -> Mapping[str, type[Any]]:
    """All classes of the package whose objects are carried."""
    for module in pkgutil.walk_packages(dissectors.__path__, "dissectors."):
        if module.name.rpartition(".")[2] not in ("hook", "shared", "spark"):
            import_module(module.name)
    kinds: list[type[Any]] = [kind for kind, how in copyreg.dispatch_table.items() if how is state_of]
    return {kind.__qualname__: kind for kind in kinds if kind.__module__.startswith("dissectors.")}


def versions() -> dict[str, str]:
    """The version of the state of each class."""
    return {name: state_layout(kind).version for name, kind in sorted(classes().items())}


def types(kind: Any) -> dict[str, str]:
    """The attributes of a class that are carried, with their types."""
    return dict(zip(state_layout(kind).names, state_layout(kind).types, strict=True))


def filled(kind: Any) -> Any:
    """An object of a class of which no method was called, with a value in each attribute that is a plain one."""
    thing = kind.__new__(kind)
    for name, text in types(kind).items():
        setattr(thing, name, next((value for start, value in VALUES.items() if text.startswith(start)), None))
    return thing


class Noting(pickle.Pickler):
    """A pickler that notes one object of each class."""

    def __init__(self, found: dict[str, Any]) -> None:
        super().__init__(io.BytesIO())
        self._found = found

    def reducer_override(self, thing: Any) -> Any:
        self._found[type(thing).__qualname__] = thing
        return NotImplemented


def used() -> dict[str, Any]:
    """Objects from the middle of samples, one of each class that is met."""
    found: dict[str, Any] = {}
    for sample in sorted(SAMPLES.glob("*.pcap")):
        engine = Engine(Options(tables=tuple(TABLES), full=True, limits=LIMITS), [str(sample)])
        for block in Reader(str(sample), 0, LIMITS).blocks():
            engine.feed("", block)
            engine.decode()
            engine.take()
            Noting(found).dump(engine)
    return {name: thing for name, thing in found.items() if name in classes()}


def described(thing: Any, met: dict[int, tuple[int, Any]]) -> Any:
    """What an object holds, down to plain values; what was met before by its number."""
    if isinstance(thing, ATOMS) or callable(thing):
        return thing if isinstance(thing, ATOMS[:-1]) else type(thing).__qualname__
    if id(thing) in met:
        return "met", met[id(thing)][0]
    met[id(thing)] = len(met), thing  # which is kept, so that no other one gets its id
    if isinstance(thing, dict):
        return [(described(key, met), described(value, met)) for key, value in thing.items()]
    if isinstance(thing, set | frozenset):
        return sorted(map(repr, thing))
    if isinstance(thing, tuple | list):
        return type(thing).__qualname__, [described(each, met) for each in thing]
    reduce = copyreg.dispatch_table.get(type(thing))
    how: Any = reduce(thing) if reduce else thing.__reduce_ex__(4)
    parts = [list(each) if hasattr(each, "__next__") else each for each in how]
    return type(thing).__qualname__, [described(each, met) for each in parts]


def test_every_kind_of_state_is_among_them() -> None:
    assert {"Flow", "Half", "Inbox", "FrameFacts", "PendingRequest", "Conversation", "IggyRequest"} <= classes().keys()


@pytest.mark.parametrize("name", sorted(classes()))
def test_state_of_an_object_comes_back_equal(name: str) -> None:
    fresh = filled(classes()[name])
    kind: Any = type(fresh)
    copy = kind.__new__(kind)
    restore(copy, state_of(fresh)[2])
    assert state_of(copy) == state_of(fresh)
    assert set(state_layout(type(copy)).names) <= set(dir(copy))


def test_objects_that_were_used_come_back_with_all_that_they_refer_to() -> None:
    things = used()
    assert {"Flow", "Half", "Stalls", "Inbox", "FrameFacts", "IggyRequest", "PulsarRequest"} <= things.keys()
    for thing in things.values():
        copy = pickle.loads(pickle.dumps(thing))
        assert type(copy) is type(thing)
        assert described(copy, {}) == described(thing, {})


@pytest.mark.parametrize("name", sorted(classes()))
def test_state_of_another_release_is_refused_in_one_line(name: str) -> None:
    thing = filled(classes()[name])
    _, *values = state_of(thing)[2]
    with pytest.raises(StateError, match=rf"^the state of a {name} is of another release: it has other attributes$"):
        restore(thing, ("01234567", *values))


@pytest.mark.parametrize("uncompiled", ["0", "1"])
def test_compiled_and_uncompiled_code_call_the_same_attributes_the_same_version(uncompiled: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", VERSIONS], cwd=SAMPLES.parent, env=os.environ | {loading.VARIABLE: uncompiled},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == versions()


class Window:
    first: int = 0
    data: bytes


@carried
class WindowOfNumbers(Window):
    data: bytes
    owner: Window | None
    numbers: Derived[Numbers]

    def restored(self) -> None:
        self.numbers = memoryview(self.data)


def test_what_follows_from_other_attributes_is_not_carried_but_set_again() -> None:
    window = WindowOfNumbers()
    window.first, window.data, window.owner = 5, b"abc", window
    window.restored()
    assert types(WindowOfNumbers) == {"first": "int", "data": "bytes", "owner": "Window | None"}
    copy = pickle.loads(pickle.dumps(window))
    assert (copy.first, copy.data, copy.owner) == (5, b"abc", copy)
    assert copy.numbers.tolist() == [97, 98, 99]


def test_the_version_is_another_one_where_a_name_or_a_type_is() -> None:
    def version(**annotations: str) -> str:
        lines = "\n".join(f"{name}: {type_}" for name, type_ in annotations.items())
        return state_layout(carried(type("One", (), {}), lines)).version

    assert version(a="int", b="str") == version(a="int", b="str", c="Derived[int]", d="ClassVar[int]")
    assert len({version(a="int"), version(b="int"), version(a="str"), version(a="int", b="int"), version()}) == 5
