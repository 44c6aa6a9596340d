"""Decoders that were compiled ahead, as Python keeps the bytecode of its modules.

`python -m dissectors.kafka.precompile` (part of `make install`) leaves a file beside that bytecode. What is in it
need be neither written nor compiled when a capture is read, which takes a millisecond each. Where there is no file,
or what it was made from has changed since, summaries are made when they are first used; both are the same functions.

Code is run, so the file counts only if whoever could have written it could have changed this program too: it and its
folder belong to who runs it or to the owner of this module, and nobody else may write to them.
"""

from __future__ import annotations

import hashlib
import marshal
import os
import stat
import sys
import tempfile
from collections.abc import Mapping
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from types import CodeType
from typing import Any

from dissectors.wire.proto import proto

FILE = Path(__file__).parent / "__pycache__" / "summaries" / f"{sys.implementation.cache_tag}.marshal"
_SOURCES = ("schema.py", "plan.py", "body_summary.py", "writer.py")
_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH


def keep(codes: Mapping[str, Mapping[int, CodeType]]) -> None:
    """Write the file: the code of each message's versions."""
    number: dict[CodeType, int] = {}
    index = {
        name: (_digest(_table(name)), {version: number.setdefault(code, len(number)) for version, code in each.items()})
        for name, each in codes.items()
    }
    FILE.parent.mkdir(parents=True, exist_ok=True)
    FILE.parent.chmod(0o755)
    with tempfile.NamedTemporaryFile(dir=FILE.parent, delete=False) as file:
        file.write(marshal.dumps((_made_from(), index, [marshal.dumps(code) for code in number])))
    made = Path(file.name)
    made.chmod(0o644)
    made.replace(FILE)


def find(name: str, version: int) -> CodeType | None:
    """The code for a version of a message, if it was kept and its table is still the same."""
    index, codes = _kept()
    digest, each = index.get(name, (None, {}))
    if version not in each or digest != _digest(_table(name)):
        return None
    return _code(codes[each[version]])


@cache
def _code(kept: bytes) -> CodeType:
    code: CodeType = marshal.loads(kept)
    return code


@cache
def _kept() -> tuple[Mapping[str, Any], list[bytes]]:
    try:
        with FILE.open("rb") as file:
            if not _is_ours(file.fileno()):
                return {}, []
            made_from, index, codes = marshal.loads(file.read())
    except (OSError, ValueError, EOFError, TypeError):
        return {}, []
    return (index, codes) if made_from == _made_from() else ({}, [])


def _is_ours(file: int) -> bool:
    """Whether an open file and its folder can have been written only by who runs this, or owns this module."""
    owners = {Path(__file__).stat().st_uid, os.geteuid() if hasattr(os, "geteuid") else -1}
    return all(at.st_uid in owners and not at.st_mode & _OTHERS_WRITE for at in (os.fstat(file), FILE.parent.stat()))


def _made_from() -> tuple[Any, ...]:
    folder = Path(__file__).parent
    return (MAGIC_NUMBER, *(_digest(folder / name) for name in _SOURCES))


def _table(name: str) -> Path:
    return proto("kafka", "messages", f"{name}.txt")


@cache
def _digest(path: Path) -> bytes:
    return hashlib.blake2b(path.read_bytes(), digest_size=16).digest()
