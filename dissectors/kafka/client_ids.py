"""The client ids of one connection: most requests have that of the request before them."""

from __future__ import annotations

from sys import intern
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.precedents import Precedents
from dissectors.session.frame import Frame
from dissectors.wire.memory import is_at, part

_MOST = 100  # that are remembered


@final
@carried
@compiled
class ClientIds:
    """What requests call their client."""

    latest: bytes  # of the newest request that has one: as on the wire
    size: cython.longlong  # … its length, -1 where the newest request has none
    texts: dict[bytes, str]  # all that were seen, as on the wire -> as text
    _text: str | None  # the latest
    _precedents: Precedents

    def __init__(self, precedents: Precedents) -> None:
        self.latest, self.size, self._text = b"", -1, None
        self.texts = {}
        self._precedents = precedents

    @compiled
    def read(
        self, frame: Frame, start: cython.Py_ssize_t, end: cython.Py_ssize_t, have: cython.Py_ssize_t
    ) -> str | None:
        """The client id in data[start:end] of a request; None for the beginning of one that is not known.

        have: index up to which its bytes are there.
        """
        if end > have:
            return self.texts.get(part(frame.data, start, end))
        if end - start != self.size or not is_at(frame.data, start, self.latest):
            self.latest, self.size = part(frame.data, start, end), end - start
            self._text = self.texts.get(self.latest)
            if self._text is None:
                self._text = intern(self.latest.decode("utf-8", "backslashreplace"))  # many connections have the same
                self._precedents.request(frame.offset, self._text)
                if len(self.texts) < _MOST:
                    self.texts[self.latest] = self._text
        return self._text
