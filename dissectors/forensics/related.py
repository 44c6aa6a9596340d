"""The same batch seen elsewhere, and what its receiver said of it.

    the same bytes at another capture point      connection, incarnation, stream offset, role
    the same content                             topic, partition, stored checksum
    the same batch of one producer               topic, partition, producer, epoch, sequence
    the same place in the log                    topic, partition, position

A sighting whose checksum is right and whose stored checksum is the same carried the very bytes that the broken one
should have: it is a witness, and its packets are read again for them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

RELATED = 20  # sightings of one batch that are listed
WITNESSES = 2  # of these, read again for the right bytes

KEYS = ("site", "connection", "incarnation", "stream_offset")
SIGHTING = (
    *KEYS, "role", "format", "topic", "partition", "base_offset", "position", "producer", "producer_epoch",
    "base_sequence", "checksum_stored", "checksum_computed", "verdict", "outcome", "correlation_id", "time", "file",
    "packet", "client_ip", "client_port", "server_ip", "server_port",
)  # fmt: skip
IDENTITIES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("same connection, other capture point", ("connection", "incarnation", "stream_offset", "role")),
    ("same topic and checksum", ("topic", "partition", "checksum_stored")),
    ("same producer and sequence", ("topic", "partition", "producer", "producer_epoch", "base_sequence")),
    ("same position", ("topic", "partition", "position")),
)
REACTION = "corrupt|checksum|crc"  # in the name of an error
ANSWERED = ("connection", "incarnation", "correlation_id")
_REACTION = re.compile(REACTION, re.I)
_SHOWN = ("role", "topic", "partition", "position", "verdict", "outcome", "site", "connection", "incarnation")
_TOLD_OF_ERROR = ("api", "code", "name", "connection", "time", "file", "packet")


class Witness(NamedTuple):
    """A packet with which the right bytes begin to pass, and whose it is."""

    file: str
    packet: int
    source: tuple[str, int]  # address and port
    target: tuple[str, int]


class Relations(NamedTuple):
    """What is related to one bad batch: rows as the JSON shows them, and packets to read."""

    rows: Sequence[dict[str, Any]] = ()
    witnesses: Sequence[Witness] = ()


@dataclass
class Surroundings:
    """Rows of `batches` and of `errors` in which to look."""

    sightings: pa.Table | None = None  # with the columns SIGHTING
    errors: list[dict[str, Any]] = field(default_factory=list)

    def ordered(self) -> Surroundings:
        """In an order that does not depend on how the rows came together."""
        if self.sightings is not None:
            keys = ("time", "file", "packet", "stream_offset", "role")
            self.sightings = self.sightings.combine_chunks().sort_by([(key, "ascending") for key in keys])
        self.errors.sort(key=lambda row: (str(row["time"]), row["file"] or "", row["packet"] or 0, row["code"] or 0))
        return self

    def of(self, row: Mapping[str, Any]) -> Relations:
        """What is related to this row of `batches`."""
        found: list[dict[str, Any]] = []
        if self.sightings is not None:
            for why, keys in IDENTITIES:
                if any(row[key] is None for key in keys):
                    continue
                hits = self.sightings.filter(equal(self.sightings, row, keys)).slice(0, RELATED).to_pylist()
                found += [{**hit, "why": why} for hit in hits if not _same(hit, row) and not _among(hit, found)]
        rows = [{key: hit[key] for key in (*_SHOWN, "time", "file", "packet", "why")} for hit in found[:RELATED]]
        for listed, hit in zip(rows, found, strict=False):
            listed["same_bytes"] = hit["checksum_computed"] == row["checksum_computed"]
        for error in self.errors:
            if all(error[key] == row[key] for key in ANSWERED):
                rows.append({**{key: error[key] for key in _TOLD_OF_ERROR}, "why": "the answer to it"})
        return Relations(rows, _witnesses(row, found))


def is_reaction(name: str | None) -> bool:
    """Whether an error's name speaks of checksums."""
    return bool(name and _REACTION.search(name))


def _witnesses(row: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> list[Witness]:
    right = [
        hit
        for hit in found
        if hit["verdict"] == "ok" and hit["checksum_stored"] == row["checksum_stored"] and hit["packet"] is not None
    ]
    out = []
    for hit in sorted(right, key=lambda hit: hit["file"] != row["file"])[:WITNESSES]:
        client, server = (hit["client_ip"], hit["client_port"]), (hit["server_ip"], hit["server_port"])
        ends = (client, server) if hit["role"] == "produce" else (server, client)
        out.append(Witness(hit["file"], hit["packet"], *ends))
    return out


def equal(table: pa.Table, row: Mapping[str, Any], keys: Sequence[str]) -> Any:
    """Whether each row of a table agrees with one in these columns."""
    mask = None
    for key in keys:
        column = table.column(key)
        same = pc.equal(column, pa.scalar(row[key], column.type))
        mask = same if mask is None else pc.and_(mask, same)
    return pc.fill_null(mask, False)


def _same(hit: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(hit[key] == row[key] for key in (*KEYS, "role"))


def _among(hit: Mapping[str, Any], found: Sequence[Mapping[str, Any]]) -> bool:
    return any(_same(hit, other) for other in found)


__all__ = ["ANSWERED", "KEYS", "Relations", "Surroundings", "Witness", "equal", "is_reaction"]
