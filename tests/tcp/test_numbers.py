"""The compiler and Python read the same numbers."""

from __future__ import annotations

import re
from pathlib import Path

from dissectors.tcp import numbers


def test_the_declared_numbers_are_those_of_the_module() -> None:
    text = Path(numbers.__file__).with_suffix(".pxd").read_text()
    declared = {
        **dict(re.findall(r"^    (\w+) = (-?\d+)$", text, re.M)),
        **dict(re.findall(r"#define (\w+) (\w+)LL", text)),
    }
    assert {name: int(value, 0) for name, value in declared.items()} == {
        name: value for name, value in vars(numbers).items() if name.isupper()
    }
