"""One connection, or one exchange, with everything that its rows and its bytes say."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dissectors.capture.block import ACK, FIN, RST, SYN, PacketBlock, address, address_halves
from dissectors.capture.reader import Reader
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import endpoint
from dissectors.redaction import public_path
from dissectors.run import Run
from dissectors.session.protocols import protocols
from pipelines.answers.records import Relations, Row, gathered, query
from pipelines.tables.causes import PARTS, TimePart, parts
from pipelines.tables.dialect import DuckDB

if TYPE_CHECKING:
    from pipelines.payloads.messages import PayloadReader

TABLES = ("exchanges", "batches", "errors", "connections", "findings", "stalls")


@dataclass(frozen=True)
class ConnectionPacket:
    """A TCP packet of a capture."""

    file: str
    number: int
    source: str  # ip:port
    destination: str
    payload: bytes
    flags: str  # of TCP: `SYN, ACK`


_FLAGS = {SYN: "SYN", FIN: "FIN", RST: "RST", ACK: "ACK"}
_KEY = ("site", "connection", "incarnation")
_ORDER = "start_time, connection, incarnation"
_OF_CLIENT = f"""
    EXISTS (SELECT 1 FROM exchanges e WHERE lower(e.client_id) = lower(?)
        AND {" AND ".join(f"e.{column} = c.{column}" for column in _KEY)})"""


def packet(path: str, number: int, limits: Limits) -> ConnectionPacket | None:
    """The TCP packet with this number; None where there is none. Raises InputError."""
    for block in Reader(path, 0, limits).blocks():
        found = np.flatnonzero(block.number == number)
        if len(found):
            at = found[0]
            start = int(block.at[at])
            source = address(int(block.src_hi[at]), int(block.src_lo[at]))
            destination = address(int(block.dst_hi[at]), int(block.dst_lo[at]))
            return ConnectionPacket(
                public_path(path),
                number,
                endpoint(source, int(block.sport[at])),
                endpoint(destination, int(block.dport[at])),
                bytes(block.buffer[start : start + int(block.have[at])]),
                ", ".join(name for bit, name in _FLAGS.items() if int(block.flags[at]) & bit) or "no flags",
            )
        if block.number[-1] > number:
            break
    return None


def at_packet(tables: Relations, found: ConnectionPacket) -> list[Row]:
    """The exchanges with a frame that begins in this packet; else that with the last frame to begin before it, in its
    direction of its connection.
    """
    exact = query(
        tables,
        "SELECT * FROM exchanges WHERE (request_file = ? AND request_packet = ?) OR (response_file = ? AND "
        "response_packet = ?) ORDER BY request_packet = ? DESC NULLS LAST, time",
        (found.file, found.number, found.file, found.number, found.number),
    )
    if exact:
        return exact
    forth, back = f"{found.source}>{found.destination}", f"{found.destination}>{found.source}"
    return query(
        tables,
        "SELECT * FROM exchanges WHERE (connection = ? AND request_file = ? AND request_packet < ?) OR "
        "(connection = ? AND response_file = ? AND response_packet < ?) "
        "ORDER BY CASE connection WHEN ? THEN request_packet ELSE response_packet END DESC LIMIT 1",
        (forth, found.file, found.number, back, found.file, found.number, forth),
    )


def by_id(tables: Relations, exchange_id: str) -> list[Row]:
    """The exchanges with this id, one a capture point."""
    return query(tables, "SELECT * FROM exchanges WHERE exchange_id = ? ORDER BY site, time", (exchange_id,))


def named(tables: Relations, text: str) -> list[Row]:
    """The connections that a text names: in full, by any part of it, or by the id of a client that uses them."""
    for condition in ("connection = ?", "contains(connection, ?)", _OF_CLIENT):
        found = query(tables, f"SELECT * FROM connections c WHERE {condition} ORDER BY {_ORDER}", (text,))
        if found:
            return found
    return []


def clients_of(tables: Relations, found: Sequence[Row]) -> list[Row]:
    """Connections with what their requests say: rows of `connections` with `client_ids`, the first-named first."""
    said = query(
        tables,
        "SELECT site, connection, incarnation, list(DISTINCT client_id ORDER BY client_id) AS client_ids "
        "FROM exchanges WHERE client_id <> '' GROUP BY ALL",
    )
    ids = {tuple(row[column] for column in _KEY): row["client_ids"] for row in said}
    return [{**row, "client_ids": ids.get(tuple(row[column] for column in _KEY), [])} for row in found]


def related(tables: Relations, exchange: Mapping[str, Any]) -> dict[str, list[Row]]:
    """The batches and errors of an exchange, and what was found in its packets."""
    keys = (exchange["exchange_id"], exchange["site"])
    packets = [(exchange[f"{side}_file"], exchange[f"{side}_packet"]) for side in ("request", "response")]
    of_packets = " OR ".join("(file = ? AND packet = ?)" for _ in packets)
    return {
        "batches": query(
            tables, "SELECT * FROM batches WHERE exchange_id = ? AND site = ? ORDER BY stream_offset", keys
        ),
        "errors": query(tables, "SELECT * FROM errors WHERE exchange_id = ? AND site = ?", keys),
        "findings": query(
            tables,
            f"SELECT * FROM findings WHERE connection = ? AND ({of_packets})",
            (exchange["connection"], *(value for pair in packets for value in pair)),
        ),
    }


def times(tables: Relations, exchange: Mapping[str, Any]) -> list[tuple[TimePart, int]]:
    """Where the time of a slow exchange went: its parts with their ns, the largest first; nothing of other exchanges.

    The parts add up to `total_ns`; those that took nothing are left out.
    """
    found = query(
        tables,
        f"SELECT * FROM ({parts(DuckDB())}) WHERE site = ? AND connection = ? AND incarnation = ? AND exchange_id = ?",
        [exchange[column] for column in ("site", "connection", "incarnation", "exchange_id")],
    )
    taken = [(part, ns) for row in found for part in PARTS if (ns := row[f"{part.name}_ns"])]
    return sorted(taken, key=lambda pair: -pair[1])


def secret_until(tables: Relations, found: ConnectionPacket) -> float:
    """The last packet of the connection's file in which credentials may lie; 0 for none, infinite for all.

    Between a SASL handshake and its end, frames may carry credentials without a header of their own, so everything up
    to the last frame of an API that carries credentials counts; so does a topic in which a broker keeps some. A frame
    may reach into the packet in which the next one of its direction begins.
    """
    carriers = [protocol.credentials() for protocol in protocols()]
    apis, topics = (sorted(set().union(*each)) for each in zip(*carriers, strict=True))
    names = (f"{found.source}>{found.destination}", f"{found.destination}>{found.source}")
    rows = query(
        tables,
        "SELECT *, coalesce(api IS NULL OR list_contains(?, api) OR len(list_intersect(topics, ?)) > 0, FALSE) "
        "AS secret FROM exchanges WHERE connection IN (?, ?)",
        (apis, topics, *names),
    )
    return max(_secret_side(rows, side, found.file) for side in ("request", "response"))


def _secret_side(rows: Sequence[Row], side: str, file: str) -> float:
    """The packet up to which frames of one direction hold secrets: where the frame after the last of them begins."""
    begun = [(row[f"{side}_packet"], row[f"{side}_file"], row["secret"]) for row in rows if row[f"{side}_packet"]]
    last = max((packet for packet, _, secret in begun if secret), default=0)
    if not last:
        return 0
    return min((packet for packet, where, _ in begun if where == file and packet > last), default=math.inf)


class DecodedExchange(NamedTuple):
    """What the frames of an exchange hold."""

    request: Any  # the decoded body; None where there is none, or it was not decoded
    response: Any
    messages: Sequence[Row]  # rows of `messages`, where they were asked for


def decoded(
    paths: Sequence[str],
    options: Options,
    exchange: Mapping[str, Any],
    *,
    messages: bool = False,
    read: PayloadReader | None = None,
) -> DecodedExchange:
    """The bodies of an exchange, and its messages if wanted; read: with their keys, values and headers, read by it.

    Only the packets of its connection are decoded.
    """
    tables = ("exchanges", "messages") if messages else ("exchanges",)
    payloads = read is not None
    run = SomeConnections(paths, options._replace(tables=tables, full=True, payloads=payloads), [exchange])
    rows = run.records() if read is None else read.of(run.records(), tables)
    made = gathered(rows, tables, full=True, payloads=payloads)
    keys = (exchange["exchange_id"], exchange["site"])
    bodies = query(made, "SELECT request, response FROM exchanges WHERE exchange_id = ? AND site = ?", keys)
    request, response = (
        (None if body is None else json.loads(body) for body in bodies[0].values()) if bodies else (None, None)
    )
    of_exchange = "FROM messages WHERE exchange_id = ? AND site = ? ORDER BY stream_offset, position"
    return DecodedExchange(request, response, query(made, f"SELECT * {of_exchange}", keys) if messages else ())


class SomeConnections(Run):
    """A run that looks at the packets between some addresses and ports only."""

    def __init__(self, paths: Sequence[str], options: Options, connections: Sequence[Mapping[str, Any]]) -> None:
        super().__init__(paths, options)
        self._ends: set[tuple[int, ...]] = set()
        for each in connections:
            client = (*address_halves(each["client_ip"]), each["client_port"])
            server = (*address_halves(each["server_ip"]), each["server_port"])
            self._ends |= {(*client, *server), (*server, *client)}

    def select(self, block: PacketBlock) -> PacketBlock | None:
        """Those of these connections."""
        mine = np.zeros(len(block), bool)
        for ends in self._ends:
            mine |= self._between(block, ends)
        return block.take(np.flatnonzero(mine)) if mine.any() else None

    @staticmethod
    def _between(block: PacketBlock, ends: tuple[int, ...]) -> Any:
        columns = (block.src_hi, block.src_lo, block.sport, block.dst_hi, block.dst_lo, block.dport)
        same = np.ones(len(block), bool)
        for column, value in zip(columns, ends, strict=True):
            same &= column == value
        return same
