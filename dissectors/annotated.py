"""Annotated for the fields of `records`, which wants their notes and no types: typing's own costs 100,000 instructions
a field, a fortieth of what a command takes to start.
"""

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from typing import Annotated as Annotated
else:

    class Annotated:
        """Notes on a type, those of the type itself first."""

        def __init__(self, notes: tuple[Any, ...]) -> None:
            self.__metadata__ = notes

        def __class_getitem__(cls, parts: tuple[Any, ...]) -> Self:
            type, *notes = parts
            return cls((*getattr(type, "__metadata__", ()), *notes))
