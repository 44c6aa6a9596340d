"""Requests that verdicts name, with the bytes of their packets beside what these decode to.

The captures are read once more, in one pass, and only the packets of connections that are named are decoded. Packets in
which credentials may lie are not shown, as `show --bytes` does not; bodies have their secrets cut already.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from dissectors.capture.block import PacketBlock
from dissectors.options import Options
from pipelines.answers.connection import ConnectionPacket, SomeConnections, secret_until
from pipelines.answers.records import Relations, Row, query
from pipelines.formats.outline import outline
from pipelines.storage.capture_paths import captures

MOST = 60  # requests, of all verdicts
EACH = 4  # of one verdict
BYTES = 512  # of a packet
LINES, WIDTH = 120, 60  # of a decoded body
SIDES = ("request", "response")


class FrameBytes(NamedTuple):
    """A request or an answer."""

    side: str
    file: str  # as records name it
    packet: int  # in which it begins
    data: bytes  # the first bytes of the packet's payload; none where credentials may lie in it
    size: int  # of the whole payload
    secret: bool
    lines: list[str]  # the decoded body


class NamedRequests(NamedTuple):
    """What was found of the requests that verdicts name."""

    frames: list[list[FrameBytes]]
    """Of each request that is shown, its sides."""
    named: int
    """How many requests verdicts name, as far as their evidence says."""


class _Noting(SomeConnections):
    """Keeps the payload of some packets that it reads."""

    def __init__(
        self, paths: Sequence[str], options: Options, connections: Sequence[Row], wanted: dict[str, set[int]]
    ) -> None:
        """wanted: path -> numbers of packets."""
        super().__init__(paths, options, connections)
        self.payloads: dict[tuple[str, int], tuple[bytes, int]] = {}  # path and number -> first bytes, size
        self._wanted = wanted

    def select(self, block: PacketBlock) -> PacketBlock | None:
        mine = super().select(block)
        if mine is not None:
            for at in range(len(mine)):
                path, number = self.files[int(mine.file[at])], int(mine.number[at])
                if number in self._wanted.get(path, ()):
                    start, have = int(mine.at[at]), int(mine.have[at])
                    self.payloads[path, number] = bytes(mine.buffer[start : start + min(have, BYTES)]), have
        return mine


def of_verdicts(tables: Relations, evidence: Sequence[Sequence[Row]], out: str, options: Options) -> NamedRequests:
    """tables: those of `connection.TABLES` in OUT; evidence: that of each verdict, the worst first."""
    each = [list(dict.fromkeys(row["exchange_id"] for row in rows if row["exchange_id"])) for rows in evidence]
    some = list(dict.fromkeys(one for ids in each for one in ids[:EACH]))[:MOST]
    named = len({one for ids in each for one in ids})
    marks = ", ".join("?" for _ in some)
    found = query(tables, f"SELECT * FROM exchanges WHERE exchange_id IN ({marks})", some) if some else []
    paths: dict[str, str] = {}
    for file in {row[f"{side}_file"] for row in found for side in SIDES} - {None}:
        there, _ = captures(out, [file])
        if there:
            paths[file] = there[0]
    known = [row for row in found if {row[f"{side}_file"] for side in SIDES} - {None} <= paths.keys()]
    if not known:
        return NamedRequests([], named)
    wanted: dict[str, set[int]] = {}
    for row in known:
        for side in SIDES:
            if row[f"{side}_file"] is not None:
                wanted.setdefault(paths[row[f"{side}_file"]], set()).add(row[f"{side}_packet"])
    run = _Noting(list(wanted), options._replace(tables=("exchanges",), full=True), known, wanted)
    bodies: dict[str, Row] = {}
    ids = {row["exchange_id"] for row in known}
    for _, batch in run.records():
        asked = batch.column("exchange_id").to_pylist()
        for at in (at for at, one in enumerate(asked) if one in ids):
            bodies[asked[at]] = {side: batch.column(side)[at].as_py() for side in SIDES}
    made = [list(_sides(tables, row, bodies.get(row["exchange_id"], {}), paths, run)) for row in known]
    return NamedRequests([sides for sides in made if sides], named)


def _sides(tables: Relations, row: Row, bodies: Row, paths: dict[str, str], run: _Noting) -> Iterator[FrameBytes]:
    ends = row["connection"].split(">")
    for side, (source, destination) in zip(SIDES, (ends, ends[::-1]), strict=True):
        file, number, body = row[f"{side}_file"], row[f"{side}_packet"], bodies.get(side)
        if file is None or (paths[file], number) not in run.payloads:
            continue
        data, size = run.payloads[paths[file], number]
        packet = ConnectionPacket(file, number, source, destination, data, "")
        secret = number <= secret_until(tables, packet)
        lines = [] if body is None else list(outline(json.loads(body), WIDTH))
        if len(lines) > LINES:
            lines[LINES:] = [f"… and {len(lines) - LINES} more lines"]
        yield FrameBytes(side, file, number, b"" if secret else data, size, secret, lines)
