"""The index of each field of a row, as a constant: EXCHANGE_TIME, BATCH_TOPIC.

The names are those of the NamedTuples of `records`. fields.pxd says the same to the compiler:

    python -m dissectors.rows.fields > dissectors/rows/fields.pxd
"""

from __future__ import annotations

from dissectors import records
from dissectors.rows import layout

_CONSTANTS = {
    **{
        f"{row.__name__.upper()}_{name.upper()}": i
        for table, row in records.TABLES.items()
        for name, i in layout.layout(table).places.items()
    },
    **{kind.name: int(kind) for kind in layout.Kind},
}


def __getattr__(name: str) -> int:
    if name in _CONSTANTS:
        return _CONSTANTS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def declaration() -> str:
    """The text of fields.pxd."""
    lines = [f"    {name} = {value}" for name, value in _CONSTANTS.items()]
    return "\n".join([_ABSENT, "cdef enum:", *lines, ""])


_ABSENT = f'''# Written by: python -m dissectors.rows.fields
cdef extern from *:
    """
    #define ABSENT (-{-layout.ABSENT:#x}LL)
    """
    const long long ABSENT
'''

if __name__ == "__main__":
    print(declaration(), end="")
