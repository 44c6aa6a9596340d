"""The columns of connections: each connection is written once, as numbers, when the first of its rows leaves."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from dissectors.arrow import Bools, Ints
from dissectors.records import CONNECTION_COLUMNS
from dissectors.rows.layout import ABSENT
from dissectors.rows.texts import Numbered, Texts

ID_SIZE = 16  # characters of the id of a connection
_VALUES = attrgetter(*(column.name for column in CONNECTION_COLUMNS))


class ConnectionColumns:
    """What the numbers of connections stand for: texts by their numbers, whole numbers as they are."""

    def __init__(self, conns: Numbered, texts: Texts) -> None:
        self._conns = conns
        self._texts = texts
        self._columns: Ints = np.full((len(CONNECTION_COLUMNS), 1), ABSENT)  # [columns, 1 + connections]: nobody first
        self._ids = b""

    def numbers(self, conns: Ints, absent: Bools) -> list[Ints]:
        """CONNECTION_COLUMNS of rows, int64[rows] each. conns: the connection of each row, where it is not absent."""
        known = self._columns.shape[1] - 1
        if known < len(self._conns.values):
            of = self._texts.of
            new = [
                [of(value) if isinstance(value, str) else ABSENT if value is None else value for value in _VALUES(conn)]
                for conn in self._conns.values[known:]
            ]
            self._columns = np.hstack([self._columns, np.array(new, np.int64).T])
        which = np.where(absent, 0, conns + 1)
        return [column[which] for column in self._columns]

    @property
    def ids(self) -> bytes:
        """ID_SIZE characters of each connection, one after the other."""
        self._ids += "".join([conn.id for conn in self._conns.values[len(self._ids) // ID_SIZE :]]).encode()
        return self._ids
