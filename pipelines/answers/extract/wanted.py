"""Which packets an extract holds: stretches of time, by who sent them to whom.

A whole conversation is everything between both ends of a connection, as long as it lasted. Of an exchange, the packets
are those of the client from the first byte of the request to its last, and those of the broker from the first byte of
the answer to its last; of a finding, the packet that it names and the exchanges that were open then.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dissectors.arrow import Bools
from dissectors.capture.block import PacketBlock, address_halves
from dissectors.errors import UsageError
from pipelines.answers import connection as connections
from pipelines.answers.records import Relations, Row, query

TABLES = ("exchanges", "connections", "findings")
_ROW = ("site", "connection", "incarnation")
_US = 1000  # ns
_ENDS = ("src_hi", "src_lo", "sport", "dst_hi", "dst_lo", "dport")  # columns of a PacketBlock

Ends = tuple[int, ...]  # address (two halves) and port of the sender, then of the receiver


@dataclass(frozen=True)
class Question:
    """What is asked for beside a selection; None for no such condition."""

    exchange: str | None = None  # an exchange id
    packet: connections.ConnectionPacket | None = None  # or a packet of it
    connection: str | None = None  # a connection, or a part of its name
    findings: Sequence[str] = ()  # kinds


class WantedPackets:
    """Stretches of time, by who sent packets to whom."""

    def __init__(self) -> None:
        self.connections: list[Row] = []  # those that the packets belong to
        self._stretches: dict[Ends, list[tuple[int, int]]] = {}  # ns, both ends included

    def add(self, row: Mapping[str, Any], sender: str, first: int, last: int) -> None:
        """Add what the `client` or the `server` of a connection sent from one time to another, both µs."""
        client = (*address_halves(row["client_ip"]), row["client_port"])
        server = (*address_halves(row["server_ip"]), row["server_port"])
        ends = (*client, *server) if sender == "client" else (*server, *client)
        self._stretches.setdefault(ends, []).append((first * _US, last * _US + _US - 1))

    @property
    def address_pairs(self) -> frozenset[Ends]:
        """Sender and receiver without ports: what fragments are known by."""
        return frozenset((*ends[:2], *ends[3:5]) for ends in self._stretches)

    def of(self, block: PacketBlock) -> Bools:
        """Which packets of a block belong to a stretch."""
        found = np.zeros(len(block), bool)
        columns = np.stack([getattr(block, name).astype(np.uint64) for name in _ENDS], axis=1)
        every, kind = np.unique(columns, axis=0, return_inverse=True)
        for number, ends in enumerate(every.tolist()):
            stretches = self._stretches.get(tuple(ends))
            if stretches is not None:
                rows: npt.NDArray[np.intp] = np.flatnonzero(kind.reshape(-1) == number)
                for first, last in stretches:
                    times = block.time[rows]
                    found[rows[(times >= first) & (times <= last)]] = True
        return found


def wanted(tables: Relations, question: Question, *, packets_only: bool) -> WantedPackets:
    """What is wanted of record tables TABLES, from which a selection has taken other rows already.

    packets_only: of exchanges and findings only their own packets, not the conversations that they belong to. Raises
    UsageError where nothing fits.
    """
    exchanges, found = _chosen(tables, question)
    lines = {_line(row): row for row in found}
    if not found:
        raise UsageError("nothing to extract: no connection in these captures meets the conditions")
    sites = sorted({row["site"] for row in found})
    if len(sites) > 1:
        raise UsageError(
            f"these packets are from {len(sites)} capture points ({', '.join(sites[:5])}): give files of one only"
        )
    made = WantedPackets()
    made.connections = found
    if not packets_only:
        for row in found:
            for sender in ("client", "server"):
                made.add(row, sender, _us(row["start_time"]), _us(row["end_time"]))
        return made
    for exchange in exchanges:
        if _line(exchange) in lines:
            _add_exchange(made, exchange)
    for finding in _findings(tables, question):
        line = lines.get(_line(finding))
        if line is not None and finding["time"] is not None:
            for sender in ("client", "server"):
                made.add(line, sender, _us(finding["time"]), _us(finding["time"]))
    return made


def _chosen(tables: Relations, question: Question) -> tuple[list[Row], list[Row]]:
    """(exchanges, connections) that are asked for."""
    exchanges = _exchanges(tables, question)
    found = query(tables, "SELECT * FROM connections ORDER BY start_time, connection, incarnation")
    if question.connection is not None:
        names = {_line(row) for row in connections.named(tables, question.connection)}
        found = [row for row in found if _line(row) in names]
        if not found:
            raise UsageError(f"no connection {question.connection} in these captures")
    if question.exchange is not None or question.packet is not None:
        if not exchanges:
            raise UsageError(f"no exchange {question.exchange or 'in this packet'} in these captures")
        names = {_line(row) for row in exchanges}
        found = [row for row in found if _line(row) in names]
    if question.findings:
        findings = _findings(tables, question)
        if not findings:
            kinds = [row["kind"] for row in query(tables, "SELECT DISTINCT kind FROM findings ORDER BY 1")]
            raise UsageError(f"no finding {', '.join(question.findings)}; there are {', '.join(kinds) or 'none'}")
        names = {_line(row) for row in findings}
        found = [row for row in found if _line(row) in names]
    return exchanges, found


def _exchanges(tables: Relations, question: Question) -> list[Row]:
    """The exchanges whose packets are asked for."""
    if question.packet is not None:
        return connections.at_packet(tables, question.packet)
    if question.exchange is not None:
        return connections.by_id(tables, question.exchange)
    if question.findings:
        kinds = ", ".join("?" for _ in question.findings)
        return query(
            tables,
            "SELECT e.* FROM exchanges e WHERE EXISTS (SELECT 1 FROM findings f "
            f"WHERE f.kind IN ({kinds}) AND f.site = e.site AND f.connection = e.connection "
            "AND f.incarnation = e.incarnation AND f.time BETWEEN e.time "
            "AND e.time + to_microseconds(coalesce(e.total_ns, e.request_ns, 0) // 1000 + 1))",
            question.findings,
        )
    return query(tables, "SELECT * FROM exchanges")


def _findings(tables: Relations, question: Question) -> list[Row]:
    if not question.findings:
        return []
    kinds = ", ".join("?" for _ in question.findings)
    return query(tables, f"SELECT * FROM findings WHERE kind IN ({kinds})", question.findings)


def _add_exchange(made: WantedPackets, exchange: Mapping[str, Any]) -> None:
    """Add the packets of an exchange."""
    if exchange["time"] is None:
        return
    began = _us(exchange["time"]) * _US  # rounded down
    request, wait, response = (exchange[f"{part}_ns"] for part in ("request", "wait", "response"))
    if exchange["request_packet"] is not None:
        made.add(exchange, "client", began // _US, (began + (request or 0)) // _US + 1)
    if exchange["response_packet"] is not None:
        first = began if exchange["request_packet"] is None else began + (request or 0) + (wait or 0)
        made.add(exchange, "server", first // _US, (first + (response or 0)) // _US + 2)


def _line(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _ROW)


def _us(time: Any) -> int:
    """µs since the epoch."""
    return int(np.datetime64(time.replace(tzinfo=None), "us").astype(np.int64))


def lasting(rows: Iterable[Mapping[str, Any]]) -> dict[tuple[str, int], tuple[int, int]]:
    """First and last time (ns, rounded outward to µs) of connections, by name and incarnation."""
    return {
        (row["connection"], row["incarnation"]): (_us(row["start_time"]) * _US, _us(row["end_time"]) * _US + _US - 1)
        for row in rows
    }
