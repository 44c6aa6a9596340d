"""The fields of each table, and what the int64 of a field stands for: derived from `records`.

NUMBER    the number itself: whole numbers, truth values (0 or 1), times (ns) and packet references
TEXT      number of a text in `Texts`: for texts that come again
LIST      number of a list of texts in `Numbered`
CONN      number of a connection in `Numbered`
LOOSE     from 0 on: a number, of which the text is made when rows become Arrow (a decimal number, a checksum, the id
          of an exchange); below 0: -1 - number of a text or of bytes that will hardly come again
UNWANTED  a field that exists with an option only, which is not set
"""

from __future__ import annotations

from enum import IntEnum
from functools import cache
from typing import NamedTuple

import pyarrow as pa

from dissectors import records

ABSENT = -0x7FFFFFFFFFFFFFFF
"""Stands for null in any field."""


class Kind(IntEnum):
    """What the number in a field stands for."""

    NUMBER = 0
    TEXT = 1
    LIST = 2
    CONN = 3
    LOOSE = 4
    UNWANTED = 5


class Layout(NamedTuple):
    """The fields of one table, in the order of its NamedTuple."""

    table: str
    fields: tuple[records.Field, ...]
    kinds: tuple[Kind, ...]
    places: dict[str, int]  # name -> index


@cache
def layout(table: str) -> Layout:
    """The layout of a table of `records.TABLES`."""
    fields = records.fields(table)
    return Layout(table, fields, tuple(map(_kind, fields)), {field.name: i for i, field in enumerate(fields)})


def _kind(field: records.Field) -> Kind:
    if field.kind == "conn":
        return Kind.CONN
    if field.kind in records.LOOSE_KINDS:
        return Kind.LOOSE
    if field.kind:  # a time or a packet
        return Kind.NUMBER
    return {pa.string(): Kind.TEXT, pa.list_(pa.string()): Kind.LIST}.get(field.columns[0].type, Kind.NUMBER)
