"""Objects that are used again and again, one of them a thread: two threads must not use one at a time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled

if cython.compiled:
    from cython.cimports.cpython.pythread import PyThread_get_thread_ident as thread_number
else:
    from threading import get_ident as thread_number


@final
@compiled
class PerThread:
    """Gives each thread its own object, which `make` makes when the thread asks first.

    Compiled code keeps the object of the thread that asked last: no other thread runs while it does, and to ask
    `threading.local` takes 500 instructions.
    """

    _make: Callable[[], Any]
    _objects: Any
    _latest_thread: cython.longlong
    _latest: Any

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make
        self._objects = threading.local()
        self._latest_thread = -1
        self._latest = None

    @compiled
    def get(self) -> Any:
        """The object of this thread."""
        if not cython.compiled:
            return self._found()
        thread: cython.longlong = thread_number()
        if thread != self._latest_thread:
            self._latest = self._found()
            self._latest_thread = thread
        return self._latest

    def _found(self) -> Any:
        if not hasattr(self._objects, "value"):
            self._objects.value = self._make()
        return self._objects.value
