"""Where the wire tables of `proto/` are: inside an installed package, or at the top of a checkout."""

from __future__ import annotations

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def proto(*parts: str) -> Path:
    """Path of a file or folder under `proto/`."""
    packaged = _PACKAGE / "_proto"
    return (packaged if packaged.is_dir() else _PACKAGE.parent / "proto").joinpath(*parts)
