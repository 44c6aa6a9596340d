"""Transactions along time: who began one, what it wrote, how long it was open, and how it ended.

Kafka    begins with AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit or the first transactional batch, ends with
         EndTxn; a producer of the same transactional id that begins anew (InitProducerId) fences the one before, whose
         open transaction the coordinator aborts
Pulsar   NEW_TXN, which says its id, to END_TXN; each SEND names the transaction that it belongs to

An EndTxn that the coordinator turns down for now (CONCURRENT_TRANSACTIONS) leaves the transaction open: clients send it
again. What a transaction holds is what the capture shows: batches and offsets of other connections of the same
producer count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from dissectors.kafka.errors import error
from pipelines.answers.records import Relations, Row, body, query

TABLES = ("exchanges", "batches", "connections")
COMMITTED, ABORTED, OPEN, FENCED, FAILED = "committed", "aborted", "open", "fenced", "failed"
BEGINS_ANEW, END = "InitProducerId", "EndTxn"
_ADDS = ("AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit")
_PULSAR_ADDS = ("ADD_PARTITION_TO_TXN", "ADD_SUBSCRIPTION_TO_TXN")
SEND = "SEND"
APIS = (BEGINS_ANEW, *_ADDS, END, "NEW_TXN", *_PULSAR_ADDS, SEND, "END_TXN")
"""What is looked at; `full` bodies are needed of these."""
_BEFORE_4 = "v3AndBelow"  # field names of AddPartitionsToTxn up to version 3, which clients use
_PULSAR_ID = "txnid_least_bits"  # a field of every request of Pulsar that belongs to a transaction
_Body = Mapping[str, Any]


@dataclass
class Transaction:
    """One transaction."""

    protocol: str
    name: str  # transactional id, or Pulsar's transaction id
    producer: str | None
    client: str | None
    began: datetime
    ended: datetime | None = None
    outcome: str = OPEN
    end_ns: int | None = None  # how long the coordinator took to end it
    error: str | None = None  # with which ending it failed
    records: int = 0
    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)  # whose offsets it commits
    file: str | None = None  # where its end lies, or its beginning
    packet: int | None = None

    def row(self) -> Row:
        """The transaction as a row of plain values; durations in ns."""
        took = None if self.ended is None else (self.ended - self.began) // timedelta(microseconds=1) * 1000
        return {
            "time": self.began, "protocol": self.protocol, "transaction": self.name, "producer": self.producer,
            "client": self.client, "outcome": self.error or self.outcome, "open_ns": took, "end_ns": self.end_ns,
            "records": self.records, "topics": sorted(self.topics), "groups": sorted(self.groups),
            "file": self.file, "packet": self.packet,
        }  # fmt: skip


def only_transactions(batches: Iterable[tuple[str, pa.RecordBatch]]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The exchanges and batches that say something of transactions, and all connections."""
    for table, batch in batches:
        if table == "exchanges":
            chosen = batch.filter(pc.is_in(batch.column("api"), pa.array(APIS)))
            of_one = pc.fill_null(pc.match_substring(chosen.column("request"), _PULSAR_ID), False)
            yield table, chosen.filter(pc.or_(pc.not_equal(chosen.column("api"), SEND), of_one))
        elif table == "batches":
            produced = pc.and_(
                pc.equal(batch.column("role"), "produce"), pc.fill_null(batch.column("transactional"), False)
            )
            yield table, batch.filter(pc.fill_null(produced, False))
        else:
            yield table, batch


def transactions(tables: Relations) -> list[Transaction]:
    """All transactions, in the order in which they began. tables: as `only_transactions` leaves them, with bodies."""
    history = _History()
    rows = query(
        tables,
        "SELECT 'exchange' AS what, * FROM exchanges UNION ALL BY NAME SELECT 'batch' AS what, * FROM batches "
        "ORDER BY time, what",
    )
    for row in rows:
        if row["what"] == "batch":
            history.wrote(row)
        elif row["api"] in history.steps:
            history.steps[row["api"]](row, body(row["request"]), body(row["response"]))
    return sorted(history.found, key=lambda each: each.began)


class _History:
    """Walks what producers and coordinators said, in order of time."""

    def __init__(self) -> None:
        self.found: list[Transaction] = []
        self._open: dict[tuple[str, str], Transaction] = {}  # by protocol and producer id, or Pulsar's id
        self._names: dict[str, str] = {}  # Kafka's producer id -> transactional id
        self.steps: Mapping[str, Callable[[Row, _Body, _Body], None]] = {
            BEGINS_ANEW: self._begins_anew,
            **dict.fromkeys(_ADDS, self._adds),
            END: self._ends,
            "NEW_TXN": self._new,
            **dict.fromkeys(_PULSAR_ADDS, self._adds_of_pulsar),
            SEND: self._wrote_of_pulsar,
            "END_TXN": self._ends_of_pulsar,
        }

    # --- Kafka ---

    def wrote(self, batch: Row) -> None:
        """A transactional batch was produced."""
        if batch["protocol"] == "kafka" and batch["producer"] and not batch["control"]:
            mine = self._of(batch, batch["producer"], batch["producer_epoch"])
            mine.records += batch["records"] or 0
            mine.topics.add(batch["topic"] or "?")

    def _begins_anew(self, row: Row, request: _Body, response: _Body) -> None:
        name, producer = request.get("transactionalId"), response.get("producerId")
        if name is None or producer is None or row["status"] != "ok":
            return
        for key, open_one in list(self._open.items()):
            if open_one.protocol == "kafka" and open_one.name == name:
                self._close(key, row, FENCED)
        self._names[str(producer)] = name

    def _adds(self, row: Row, request: _Body, response: _Body) -> None:
        fields = {name.removeprefix(_BEFORE_4)[:1].lower() + name.removeprefix(_BEFORE_4)[1:]: value
                  for name, value in request.items()}  # fmt: skip
        producer = fields.get("producerId")
        if producer is None or row["status"] != "ok":
            return  # of a broker that asks for several at once, or refused
        if fields.get("transactionalId"):
            self._names[str(producer)] = fields["transactionalId"]
        mine = self._of(row, str(producer), fields.get("producerEpoch"))
        if fields.get("groupId"):
            mine.groups.add(fields["groupId"])
        elif row["api"] == "AddPartitionsToTxn":
            mine.topics.update(topic.get("name") or "?" for topic in fields.get("topics") or ())

    def _ends(self, row: Row, request: _Body, response: _Body) -> None:
        producer = str(request.get("producerId"))
        if request.get("transactionalId"):
            self._names[producer] = request["transactionalId"]
        mine = self._of(row, producer, request.get("producerEpoch"))
        mine.name = self._names.get(producer, mine.name)
        self._close(("kafka", producer), row, COMMITTED if request.get("committed") else ABORTED)
        if row["status"] == "error" and error(row["error_code"] or 0).retriable:
            self._open["kafka", producer] = mine

    def _of(self, row: Row, producer: str, epoch: int | None) -> Transaction:
        """The open transaction of a producer; a new one where it has none."""
        known = self._open.get(("kafka", producer))
        if known is None:
            whose = producer if epoch is None else f"{producer}:{epoch}"
            name = self._names.get(producer, f"producer {producer}")
            known = self._begin(("kafka", producer), row, name, whose)
        known.error = None  # with which the coordinator turned down to end it before, for now
        return known

    # --- Pulsar ---

    def _new(self, row: Row, request: _Body, response: _Body) -> None:
        if (key := _pulsar_id(response)) is not None and row["status"] == "ok":
            self._begin(("pulsar", key), row, key, None)

    def _adds_of_pulsar(self, row: Row, request: _Body, response: _Body) -> None:
        mine = self._open.get(("pulsar", _pulsar_id(request) or ""))
        if mine is not None and row["status"] == "ok":
            mine.topics.update(request.get("partitions") or ())
            mine.groups.update(each.get("subscription") or "?" for each in request.get("subscription") or ())

    def _wrote_of_pulsar(self, row: Row, request: _Body, response: _Body) -> None:
        mine = self._open.get(("pulsar", _pulsar_id(request) or ""))
        if mine is not None:
            mine.records += row["records"] or 0
            mine.topics.update(row["topics"] or ())

    def _ends_of_pulsar(self, row: Row, request: _Body, response: _Body) -> None:
        key = _pulsar_id(request)
        if key is None:
            return
        if ("pulsar", key) not in self._open:
            self._begin(("pulsar", key), row, key, None)
        self._close(("pulsar", key), row, COMMITTED if request.get("txn_action") == "COMMIT" else ABORTED)

    # --- both ---

    def _begin(self, key: tuple[str, str], row: Row, name: str, producer: str | None) -> Transaction:
        file, packet = (row["file"], row["packet"]) if row["what"] == "batch" else _place(row)
        made = Transaction(
            row["protocol"], name, producer, row["client_id"] or row["client_ip"], row["time"], file=file, packet=packet
        )
        self._open[key] = made
        self.found.append(made)
        return made

    def _close(self, key: tuple[str, str], row: Row, outcome: str) -> None:
        mine = self._open.pop(key)
        mine.error = row["error_name"] if row["status"] == "error" else None
        mine.outcome = FAILED if mine.error else outcome
        mine.end_ns = row["total_ns"]
        mine.ended = row["time"] + timedelta(microseconds=(row["total_ns"] or 0) // 1000)
        mine.file, mine.packet = _place(row)


def _place(row: Row) -> tuple[str | None, int | None]:
    return (row["request_file"], row["request_packet"]) if row["request_packet"] else (
        row["response_file"], row["response_packet"])  # fmt: skip


def _pulsar_id(body: _Body) -> str | None:
    most, least = body.get("txnid_most_bits"), body.get(_PULSAR_ID)
    return None if least is None else f"{most or 0}:{least}"
