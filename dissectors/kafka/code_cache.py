"""Decoders that were compiled ahead, as Python keeps the bytecode of its modules.

`python -m dissectors.kafka.precompile` (part of `make install`) leaves a file beside that bytecode. What is in it
need be neither written nor compiled when a capture is read, which takes a millisecond each. Where there is no file,
or what it was made from has changed since, summaries are made when they are first used; both are the same functions.
"""

from __future__ import annotations

import marshal
import sys
from collections.abc import Mapping
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Any

from dissectors.wire.proto import proto

FILE = Path(__file__).parent / "__pycache__" / f"summaries.{sys.implementation.cache_tag}.marshal"
_SOURCES = ("schema.py", "plan.py", "body_summary.py", "writer.py")


def keep(codes: Mapping[str, Mapping[int, CodeType]]) -> None:
    """Write the file: the code of each message's versions."""
    number: dict[CodeType, int] = {}
    index = {
        name: (_stamp(_table(name)), {version: number.setdefault(code, len(number)) for version, code in each.items()})
        for name, each in codes.items()
    }
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_bytes(marshal.dumps((_made_from(), index, [marshal.dumps(code) for code in number])))


def find(name: str, version: int) -> CodeType | None:
    """The code for a version of a message, if it was kept and its table is still the same."""
    index, codes = _kept()
    stamp, each = index.get(name, (None, {}))
    if version not in each or stamp != _stamp(_table(name)):
        return None
    return _code(codes[each[version]])


@cache
def _code(kept: bytes) -> CodeType:
    code: CodeType = marshal.loads(kept)
    return code


@cache
def _kept() -> tuple[Mapping[str, Any], list[bytes]]:
    try:
        made_from, index, codes = marshal.loads(FILE.read_bytes())
    except (OSError, ValueError, EOFError, TypeError):
        return {}, []
    return (index, codes) if made_from == _made_from() else ({}, [])


def _made_from() -> tuple[Any, ...]:
    folder = Path(__file__).parent
    return (MAGIC_NUMBER, *(_stamp(folder / name) for name in _SOURCES))


def _table(name: str) -> Path:
    return proto("kafka", "messages", f"{name}.txt")


def _stamp(path: Path) -> tuple[int, int]:
    stat = path.stat()
    return stat.st_size, stat.st_mtime_ns
