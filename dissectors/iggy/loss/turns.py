"""Where in the server's stream the answers to requests can begin, while a search for the next answer is under way.

The answer to a request comes after everything that the server had sent when the request was complete. So each request
notes the stream offset that the search had reached. The note depends on the order of delivery only: not on how the
bytes were cut, nor on which of them the search has passed over since.
"""

from __future__ import annotations


class Turns:
    """The notes of one search, which begins at a stream offset."""

    def __init__(self, began: int) -> None:
        self.began = began
        self._offsets: dict[int, int] = {}

    def note(self, order: int, offset: int) -> None:
        """A request was complete at a delivery order, when the search had looked at the stream up to an offset."""
        self._offsets[order] = offset

    def place(self, order: int) -> int:
        """Stream offset before which no answer to the request with this delivery order begins.

        For requests from before the search that is where the search began.
        """
        return self._offsets.get(order, self.began)
