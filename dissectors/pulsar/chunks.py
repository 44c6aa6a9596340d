"""Messages that came in chunks, put together again.

A producer sends the chunks of a message in order, those of several producers may mix; each carries the message's uuid,
its own number and how many there are. What is incomplete is kept under a ceiling for all together.
"""

from __future__ import annotations

from dissectors.pulsar.batches import PulsarEntry
from dissectors.pulsar.fields import META_CHUNK_ID, META_NUM_CHUNKS_FROM_MSG, META_PRODUCER_NAME, META_UUID

Key = tuple[str, int, bytes, bytes]  # role, producer or consumer id, producer name, uuid

_OVERHEAD = 200  # bytes that an empty chunk takes in memory


class Chunks:
    """Unfinished messages of one connection, oldest first."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: dict[Key, list[bytes]] = {}
        self.held = 0  # bytes

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, entry: PulsarEntry) -> bytes | None:
        """Take a chunk. The whole message where this completes it; None where it does not, or where one is missing."""
        meta = entry.meta
        number = meta.number(META_CHUNK_ID, 0)
        name, uuid = meta.octets(META_PRODUCER_NAME) or b"", meta.octets(META_UUID) or b""
        key = (entry.role, entry.request.endpoint_id, name, uuid)
        parts = self._parts.get(key, [])
        if number == 0:
            self._drop(key)
            parts = []
        elif number < len(parts):
            return None  # sent again
        if entry.plain is None or number != len(parts):
            self._drop(key)
            return None
        part = entry.plain
        if number + 1 == meta.number(META_NUM_CHUNKS_FROM_MSG, 0):
            self._drop(key)
            return b"".join([*parts, part])
        parts.append(part)
        self._parts[key] = parts
        self.held += self._size(key, part)
        while self.held > self._limit:
            self._drop(next(iter(self._parts)))
        return None

    def _drop(self, key: Key) -> None:
        self.held -= sum(self._size(key, part) for part in self._parts.pop(key, ()))

    @staticmethod
    def _size(key: Key, part: bytes) -> int:
        return len(part) + len(key[2]) + len(key[3]) + _OVERHEAD
