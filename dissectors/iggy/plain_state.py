"""What is carried from one process to another: plain values, whether compiled code holds them or not."""

from __future__ import annotations

from typing import Any, ClassVar

from dissectors.compiling.marks import compiled


@compiled
class PlainState:
    """An object whose state is the values of the attributes that its class names: it is pickled by them."""

    CARRIED: ClassVar[tuple[str, ...]] = ()

    def __getstate__(self) -> tuple[Any, ...]:
        return tuple([getattr(self, name) for name in self.CARRIED])

    def __setstate__(self, values: tuple[Any, ...]) -> None:
        for name, value in zip(self.CARRIED, values, strict=True):
            setattr(self, name, value)
