"""What a page carries, read back as its script reads it."""

import base64
import json
import re
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

_BLOCK = re.compile(r'<script type="application/deflate" id="data">([A-Za-z0-9+/=]*)</script>')


def data(page: Path) -> dict[str, Any]:
    """The data block of a page."""
    found = _BLOCK.search(page.read_text(encoding="utf-8"))
    assert found is not None
    made: dict[str, Any] = json.loads(_inflated(found[1]))
    return made


def texts(page: Path) -> str:
    """All text of a page: its markup, and what its data block carries as text (packed numbers are none)."""
    carried = data(page)
    shown = carried["strings"], carried["files"], frame_bytes(carried["frames"])
    return _BLOCK.sub("", page.read_text(encoding="utf-8")) + repr(shown)


def frame_bytes(frames: Mapping[str, Any]) -> list[tuple[str, bytes]]:
    """(what is said of it, its bytes) of each frame that a page shows; the bytes of a hidden one are empty."""
    return [(text, base64.b64decode(raw)) for sides in frames.values() for _, _, text, raw, _ in sides]


def _inflated(text: str) -> bytes:
    """The bytes behind a text of the page."""
    return zlib.decompress(base64.b64decode(text), -zlib.MAX_WBITS)


def unpacked(table: Mapping[str, Any]) -> dict[str, list[int | None]]:
    """The columns of a packed table, as assets/data.js reads them."""
    flat, at, rows = _inflated(table["data"]), 0, table["rows"]
    columns: dict[str, list[int | None]] = {}
    for name, size, delta, unknown, scale in table["columns"]:
        planes = np.frombuffer(flat, np.uint8, size * rows, at).reshape(size, rows).astype(np.int64)
        at += size * rows
        values = (planes << (8 * np.arange(size))[:, None]).sum(axis=0)
        if delta:
            values = np.cumsum(np.where(values % 2, -(values + 1) // 2, values // 2))
        known = values > 0 if unknown else np.ones(rows, bool)
        values = (values - unknown) * scale
        columns[name] = [int(value) if there else None for value, there in zip(values, known, strict=True)]
    return columns


def requests(carried: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of requests of a data block: numbers, names as texts, lists of topics, `alone`, `weight` from 1 on."""
    rows = _rows(carried, "requests")
    sets, topics = carried["requests"]["topic_sets"], _texts(carried, "topic")
    return [
        {**row, "topics": [topics[place] for place in sets[row["topics"]]], "alone": not row["weight"],
         "weight": row["weight"] or 1}
        for row in rows
    ]  # fmt: skip


def batches(carried: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows of batches of a data block, as those of requests."""
    return _rows(carried, "batches")


def _texts(carried: dict[str, Any], dimension: str) -> list[str]:
    strings = carried["strings"]
    return [
        "" if place in ("", None) else strings[place if isinstance(place, int) else place[1]]
        for place in carried["requests"]["names"][dimension]
    ]


def _rows(carried: dict[str, Any], table: str) -> list[dict[str, Any]]:
    columns: dict[str, list[Any]] = dict(unpacked(carried["requests"][table]))
    for dimension in carried["requests"]["names"]:
        if dimension in columns:
            texts = _texts(carried, dimension)
            columns[dimension] = [texts[place] for place in columns[dimension]]
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
