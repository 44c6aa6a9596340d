"""What mypy should think of Cython's names: numbers are int, and nothing is compiled."""

from builtins import int as int
from typing import Any, Final

compiled: Final = False
longlong = int
ulonglong = int
uint = int
Py_ssize_t = int
bint = bool

def address(value: Any) -> Any: ...
