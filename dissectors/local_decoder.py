"""Decodes in this process, and says whether others could help: see `workers`."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from dissectors.capture.block import PacketBlock
from dissectors.engine import Engine, Share
from dissectors.options import Options
from dissectors.release import DecodedRows
from dissectors.rows.sink import Suspect
from dissectors.tcp.tracker import Overflow
from dissectors.tls import KeyLog


class Outcome(NamedTuple):
    """What a decoder has besides rows, at the end."""

    overflow: Mapping[Share, Overflow] = {}
    suspects: tuple[Suspect, ...] = ()
    sums: Counter[tuple[str, str]] = Counter()  # checksums in compressed data, as codec_sums.counting has them


class LocalDecoder:
    """Decodes in this process. Its commands give what has been decoded meanwhile."""

    def __init__(
        self,
        options: Options,
        files: list[str],
        keylog: KeyLog,
        suspects: list[Suspect] | None,
        engine: Engine | None = None,
    ) -> None:
        """engine: one that goes on; a new one where it is None."""
        self._engine = engine or Engine(options, files, keylog)
        self._engine.sink.files = files
        self._engine.sink.suspects = suspects
        self._limits = options.limits

    def feed(self, site: str, block: PacketBlock, clock: int) -> Iterator[DecodedRows]:
        """Take packets. clock: as in SitePackets."""
        self._engine.feed(site, block, clock)
        yield from ()

    def add_secrets(self, text: bytes) -> Iterator[DecodedRows]:
        """Take lines of a TLS key log; they hold for what is fed later."""
        self._engine.keylog.add(text)
        yield from ()

    def end_site(self, site: str, clock: int) -> Iterator[DecodedRows]:
        """A site has no more packets."""
        for _ in self._engine.end_site(site):
            if self._engine.sink.rows() >= self._limits.rows:
                yield DecodedRows(clock, [self._engine.take()], whole=False)

    def decode(self, clock: int) -> Iterator[DecodedRows]:
        """Decode all that was fed."""
        self._engine.decode()
        yield DecodedRows(clock, [self._engine.take()])

    def finish(self) -> Iterator[DecodedRows]:
        """No more commands: give what has not been given yet."""
        yield from ()

    def outcome(self) -> Outcome:
        """After `finish`."""
        return Outcome(self._engine.overflow, tuple(self._engine.sink.suspects or ()))

    def close(self) -> None:
        """Let go of everything, finished or not."""


def can_share() -> bool:
    """Whether this system, and this process, can have workers."""
    processes = sys.modules.get("multiprocessing.process")  # where it is not loaded, this is nobody's worker
    is_worker = processes is not None and processes.current_process().daemon
    return hasattr(os, "memfd_create") and hasattr(os, "fork") and not is_worker


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
