"""The columns of connections: each connection is written once, as numbers, when the first of its rows leaves."""

from __future__ import annotations

from operator import attrgetter

import numpy as np

from dissectors.arrow import Ints
from dissectors.records import CONNECTION_COLUMNS
from dissectors.rows.layout import ABSENT
from dissectors.rows.texts import Numbered, Texts
from dissectors.wire.arrays import Numbers

ID_SIZE = 16  # characters of the id of a connection
_VALUES = attrgetter(*(column.name for column in CONNECTION_COLUMNS))


class ConnectionColumns:
    """What the numbers of connections stand for: texts by their numbers, whole numbers as they are."""

    def __init__(self, conns: Numbered, texts: Texts) -> None:
        self._conns = conns
        self._texts = texts
        self._columns: Ints = np.full((len(CONNECTION_COLUMNS), 1), ABSENT)  # [columns, 1 + connections]: nobody first
        self._ids = b""

    def columns(self, conns: Numbers) -> Ints:
        """CONNECTION_COLUMNS of rows, int64[columns, rows]. conns: the connection of each row, ABSENT for none."""
        known = self._columns.shape[1] - 1
        if known < len(self._conns.values):
            of = self._texts.of
            new = [
                [of(value) if isinstance(value, str) else ABSENT if value is None else value for value in _VALUES(conn)]
                for conn in self._conns.values[known:]
            ]
            self._columns = np.hstack([self._columns, np.array(new, np.int64).T])
        found: Ints = self._columns.take(np.maximum(np.asarray(conns), -1) + 1, axis=1)
        return found

    @property
    def ids(self) -> bytes:
        """ID_SIZE characters of each connection, one after the other."""
        self._ids += "".join([conn.id for conn in self._conns.values[len(self._ids) // ID_SIZE :]]).encode()
        return self._ids
