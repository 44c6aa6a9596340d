"""What the compiler reads follows from what people read, and stands on the same lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissectors.compiling.declare import DeclarationError, Module, Package

ARRAYS = """
from typing import Annotated, Any
Numbers = Annotated[Any, "long long[::1]"]
"""
OTHER = """
from dissectors.compiling.marks import compiled
NEAR, FAR = 1, 1 << 40
WORD = "word"
NAMES = {}

@compiled
class Base:
    first: cython.longlong

@compiled
def whole(number: cython.longlong) -> cython.longlong:
    return number
"""
HEAD = """from dissectors.compiling.marks import compiled
from dissectors.arrays import Numbers
from dissectors.other import FAR, NAMES, NEAR, WORD, Base, whole
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package with a module of arrays, and one of which others import."""
    folder = tmp_path / "dissectors"
    folder.mkdir()
    (folder / "arrays.py").write_text(ARRAYS)
    (folder / "other.py").write_text(OTHER)
    return folder


def module(package: Path, text: str) -> Module:
    """A module of the package with this text below the imports."""
    (package / "one.py").write_text(HEAD + text)
    found = Package(package).module("dissectors.one")
    assert found is not None
    return found


def declared(package: Path, text: str) -> list[str]:
    """The lines of its .pxd."""
    return [line.strip() for line in module(package, text).declaration().splitlines()]


@pytest.mark.parametrize(
    ("annotation", "attribute"),
    [
        ("cython.longlong", "cdef public long long it"),
        ("cython.bint", "cdef public bint it"),
        ("str | None", "cdef public str it"),
        ("dict[str, int]", "cdef public dict it"),
        ("Base | None", "cdef public Base it"),
        ("list[Base]", "cdef public list[Base] it"),
        ("str | bytes", "cdef public object it"),
        ("deque[int]", "cdef public object it"),
        ("int", "cdef public object it"),
        ("Numbers", "cdef readonly long long[::1] it"),
        ("Derived[Numbers]", "cdef readonly long long[::1] it"),
        ("cython.longlong = 0", "cdef public long long it"),
        ("cython.bint = False", "cdef public bint it"),
        ("str | None = None", "cdef public str it"),
        ("Annotated[list[int], 'long long[16]']", "cdef public long long it[16]"),
    ],
)
def test_an_annotation_in_a_marked_class_is_an_attribute(package: Path, annotation: str, attribute: str) -> None:
    assert attribute in declared(package, f"@compiled\nclass One:\n    it: {annotation}\n    kept: ClassVar[int] = 1\n")


def test_an_attribute_of_a_base_class_is_declared_there_only(package: Path) -> None:
    lines = declared(
        package, "@final\n@compiled(freelist=8)\nclass One(Base):\n    first: cython.longlong\n    own: str\n"
    )
    assert lines[-4:] == ["@cython.final", "@cython.freelist(8)", "cdef class One(Base):", "cdef public str own"]


@pytest.mark.parametrize(
    ("function", "declaration"),
    [
        ("def f(a: cython.longlong, b: str = '') -> bytes: ...", "cpdef bytes f(long long a, str b=*)"),
        ("def f(a) -> cython.bint: ...", "cpdef bint f(object a) except -1"),
        ("def f(a) -> cython.longlong: ...", "cpdef long long f(object a) except? -1"),
        ("def _f(a: Numbers) -> None: ...", "cdef int _f(long long[::1] a) except -1"),
    ],
)
def test_a_marked_function_is_a_c_function_of_its_annotated_types(
    package: Path, function: str, declaration: str
) -> None:
    assert declaration in declared(package, f"@compiled\n{function}\n")


def test_what_python_may_override_gives_an_object_where_it_gives_nothing(package: Path) -> None:
    methods = "@compiled\n    def f(self) -> None: ...\n    @compiled(python=False)\n    def g(self) -> None: ...\n"
    text = f"@compiled\nclass One:\n    {methods}"
    lines = declared(package, text)
    assert lines[-2:] == ["cpdef object f(self)", "cdef int g(self) except -1"]
    assert "cpdef int f(self) except -1" in declared(package, f"@final\n{text}")


def test_constants_and_names_that_functions_use_are_c_values_wherever_they_come_from(package: Path) -> None:
    lines = declared(package, "@compiled\ndef f() -> None:\n    whole(NEAR), FAR, WORD, NAMES\n")
    assert "NEAR = 1" in lines
    assert 'const long long FAR "(1099511627776LL)"' in lines
    assert {"cdef str WORD", "cdef dict NAMES"} <= set(lines)
    assert "from dissectors.other cimport Base, whole" in lines


def test_what_no_function_uses_stays_a_name_of_python(package: Path) -> None:
    text = module(package, "OWN = 7\nSUM = [OWN, WORD]\n")
    assert not text.constants
    assert not text.variables
    assert "OWN = 7" in text.source()


def test_the_members_of_an_enumeration_are_constants_where_they_get_names_at_once(package: Path) -> None:
    text = "class Role(IntEnum):\n    FIRST = 3\n    LAST = 9\n\nFIRST, LAST = Role\n\ndef f():\n    return LAST\n"
    assert module(package, text).constants == {"FIRST": 3, "LAST": 9}


def test_every_statement_stays_on_its_line_and_python_finds_the_constants(package: Path) -> None:
    function = "@compiled\ndef f(i: cython.int) -> None:\n    if i == A:\n        return\n    C\n"
    source = module(package, f"A, B = range(2)\nC = (\n    3,\n)\n\n{function}").source()
    assert source.splitlines() == [
        "",
        "from dissectors.arrays import Numbers",
        "from dissectors.other import FAR, NAMES, NEAR, WORD, Base",
        "globals()['A'] = A; globals()['B'] = B",
        *("C = (", "    3,", "); globals()['C'] = C"),
        *("", "", "def f(i: cython.int) -> None:", "    if i == A:", "        return 0", "    C"),
    ]


@pytest.mark.parametrize("wrong", ["cython.longlong = 1", "cython.longlong = None", "str = ''", "int = 0"])
def test_what_an_attribute_begins_as_is_what_zeros_mean(package: Path, wrong: str) -> None:
    with pytest.raises(DeclarationError, match=r"one\.py:6: it: .*: it begins as (0|None); __init__ may set it"):
        declared(package, f"@compiled\nclass One:\n    it: {wrong}\n")


def test_annotations_of_what_is_carried_stay_behind_the_last_line(package: Path) -> None:
    text = "@carried\n@compiled\nclass One:\n    it: cython.longlong = 0\n    also: Derived[Numbers]\n"
    lines = module(package, text).source().splitlines()
    assert lines[len(HEAD.splitlines()) :][:3] == ["", "", "class One:"]
    assert lines[-1] == r"carried(One, 'it: cython.longlong\nalso: Derived[Numbers]')"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("(Base):\n    it: str", "One is carried, and its base Base is not"),
        (":\n    it: Numbers", "it: an array of others is not carried; it must be Derived"),
    ],
)
def test_what_cannot_be_carried_is_said_with_its_place(package: Path, body: str, why: str) -> None:
    with pytest.raises(DeclarationError, match=why):
        module(package, f"@carried\n@compiled\nclass One{body}\n").source()


def test_what_c_cannot_take_is_said_with_its_place(package: Path) -> None:
    with pytest.raises(DeclarationError, match=r"one\.py:5: f takes arguments that C functions cannot"):
        declared(package, "@compiled\ndef f(*, a: int) -> None: ...\n")
