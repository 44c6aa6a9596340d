"""The mark of what is compiled. Python passes over it; `declare` reads it from the source.

    @final
    @compiled
    class Texts:
        count: cython.Py_ssize_t                # a C value
        _starts: Numbers                        # an array: wire/arrays.py names the C type
        _known: dict[str, int]

        @compiled
        def number(self, data: Bytes, start: cython.Py_ssize_t) -> cython.Py_ssize_t: ...

A marked class is a C struct of the attributes that its body annotates. A marked function or method is a C function of
the annotated types, which other compiled modules call directly. One whose name begins with an underscore can be called
by compiled code only; so can others that say so: @compiled(python=False).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

Marked = TypeVar("Marked", bound=Callable[..., Any])


@overload
def compiled(marked: Marked) -> Marked: ...


@overload
def compiled(*, freelist: int = 0, python: bool = True) -> Callable[[Marked], Marked]: ...


def compiled(marked: Any = None, *, freelist: int = 0, python: bool = True) -> Any:
    """Mark a class, function or method.

    freelist: of a class: how many freed objects are kept to be used again
    python: of a function or method: whether Python can call it too. A method of a class that is not final is found
        through Python's look-up at each call if it can.
    """
    return marked if marked is not None else lambda given: given
