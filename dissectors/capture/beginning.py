"""By which a capture is known again that has grown, was renamed or was compressed: a digest of its first packets."""

from __future__ import annotations

import hashlib
import struct

from dissectors.capture.raw import RawBlock

PACKETS = 16  # that are looked at, at most

_PACKET = struct.Struct("<qqq")  # time, captured bytes, original length


class Beginning:
    """Digests of the first packet of a file, of the first two, and so on: times, lengths and bytes."""

    def __init__(self) -> None:
        self.digests: list[str] = []
        self._hash = hashlib.blake2b(digest_size=16)

    @property
    def is_whole(self) -> bool:
        """Whether no further packet counts."""
        return len(self.digests) == PACKETS

    def add(self, raw: RawBlock) -> None:
        """The next packets of the file; those that do not follow are passed over."""
        if raw.number != len(self.digests) + 1:
            return
        for i in range(min(len(raw), PACKETS - len(self.digests))):
            at, have = int(raw.at[i]), int(raw.have[i])
            self._hash.update(_PACKET.pack(int(raw.time[i]), have, int(raw.wire[i])))
            self._hash.update(raw.buffer[at : at + have])
            self.digests.append(self._hash.hexdigest())
