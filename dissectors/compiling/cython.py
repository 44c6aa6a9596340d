"""What sources ask of Cython's module `cython` when they run as Python: types that annotations name, and `compiled`.

    from dissectors.compiling import cython

The build writes `import cython` in the place of this line; the package itself never imports Cython. That annotations
are not evaluated (`from __future__ import annotations`) is why the numbers need no more than a name.
"""

from __future__ import annotations

from builtins import int as int
from typing import Any, Final

compiled: Final = False
longlong = int
ulonglong = int
uint = int
Py_ssize_t = int
bint = bool


def address(value: Any) -> Any:
    """The address of a cell of an array: compiled code only has one."""
    raise NotImplementedError(f"the address of {value!r}: only compiled code has addresses")
