"""Transactions along time: who began one, what it wrote, how long it was open, and how it ended.

Made of the record table `events`, which says what requests and answers say of transactions, and of `batches`:

Kafka    begins with AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit or the first transactional batch, ends with
         EndTxn; a producer of the same transactional id that begins anew (InitProducerId) fences the one before, whose
         open transaction the coordinator aborts
Pulsar   NEW_TXN, which says its id, to END_TXN; each SEND names the transaction that it belongs to

A transaction that is open for longer than its producer allowed (transaction.timeout.ms) is aborted by the coordinator,
which looks for such ones every 10 s (transaction.abort.timed.out.transaction.cleanup.interval.ms) and tells nobody: the
producer hears of it by an error. Such a transaction has timed out, and was open for as long as it was allowed.

An EndTxn that the coordinator turns down for now (CONCURRENT_TRANSACTIONS) leaves the transaction open: clients send it
again. What a transaction holds is what the capture shows: batches and offsets of other connections of the same
producer count, each batch once however often it was sent. What was refused begins nothing and belongs to none.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pyarrow as pa

from pipelines.sql.database import Row, fetched
from pipelines.sql.words import CLIENT
from pipelines.tables.table import Table, TableColumn, rows_of, schema_of

COMMITTED, ABORTED, OPEN, FENCED, FAILED = "committed", "aborted", "open", "fenced", "failed"
TIMED_OUT = "timed out"
ENDED_BY_COORDINATOR = (47, 48, 90, 120)
"""INVALID_PRODUCER_EPOCH, INVALID_TXN_STATE, PRODUCER_FENCED, TRANSACTION_ABORTABLE: errors by which a producer hears
that its transaction was ended without it."""
NOT_THERE = ("TransactionNotFound", "InvalidTxnStatus")
"""Names of errors by which Pulsar says so; after others, a client ends it later."""
BEGAN, JOINED, ENDED = "transaction_began", "transaction_joined", "transaction_ended"
"""Kinds of events."""

MADE = "transactions_made"
"""The relation that the table is read from: what `transactions` gave."""

_CLIENT, _OF_BATCH = (CLIENT.replace("client_", f"{row}.client_") for row in ("e", "b"))
SENT = """
    select *, row_number() over (
        partition by topic, partition, producer, producer_epoch, base_sequence, outcome is not distinct from 'error'
        order by time, file, packet) as sent
    from batches where protocol = 'kafka' and role = 'produce' and transactional and producer is not null
        and not coalesce(control, false)"""
"""Batches of transactions, each once for each time it was sent; `sent` numbers those refused, and the others."""
_STEPS = f"""
    select e.time, e.protocol, e.kind, e.topic, e."group", e.subject, e.number, e.text, {_CLIENT} as client,
        e.file, e.packet, x.total_ns, x.time as asked, x.status, x.error_code, x.error_name, x.records
    from events e left join exchanges x on x.site = e.site and x.exchange_id = e.exchange_id
    where e.kind in ('{BEGAN}', '{JOINED}', '{ENDED}')
    union all by name
    select b.time, b.protocol, 'batch' as kind, b.topic, producer as subject, producer_epoch as number,
        {_OF_BATCH} as client, file, packet, b.records, x.total_ns, x.time as asked, x.error_code, outcome as status
    from ({SENT}) b left join exchanges x on x.site = b.site and x.exchange_id = b.exchange_id
    where sent = 1 or outcome = 'error' or base_sequence is null
    order by time, kind, packet"""
_LOOKS_EVERY = timedelta(seconds=10)  # the coordinator, for transactions that are open for too long
_LISTED = 20  # topics and groups of a row


@dataclass
class Transaction:
    """One transaction."""

    protocol: str
    name: str  # transactional id, or Pulsar's transaction id
    producer: str | None
    client: str | None  # address and the name it gives itself
    began: datetime
    ended: datetime | None = None
    outcome: str = OPEN
    end_ns: int | None = None  # how long the coordinator took to end it
    allowed_ms: int | None = None  # after which the coordinator aborts it
    error: str | None = None  # with which ending it failed
    records: int = 0
    topics: set[str] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)  # whose offsets it commits
    file: str | None = None  # where its end lies, or its beginning
    packet: int | None = None

    def is_over(self, time: datetime) -> bool:
        """Whether it was open for longer than allowed at a time."""
        return self.allowed_ms is not None and time > self.began + timedelta(milliseconds=self.allowed_ms)

    def row(self) -> Row:
        """The transaction as a row of the table; durations in ns."""
        took = None if self.ended is None else (self.ended - self.began) // timedelta(microseconds=1) * 1000
        return {
            "time": self.began, "protocol": self.protocol, "transaction": self.name, "producer": self.producer,
            "client": (self.client or "").partition(" ")[2] or self.client, "outcome": self.error or self.outcome,
            "open_ns": took, "end_ns": self.end_ns,
            "allowed_ns": None if self.allowed_ms is None else self.allowed_ms * 1_000_000, "records": self.records,
            "topics": sorted(self.topics)[:_LISTED], "groups": sorted(self.groups)[:_LISTED],
            "file": self.file, "packet": self.packet,
        }  # fmt: skip


def transactions(duckdb: Any) -> pa.Table:
    """All transactions, in the order in which they began. duckdb: a connection with the record tables."""
    history = _History()
    for step in fetched(duckdb, _STEPS):
        history.take(step)
    found = sorted(history.found, key=lambda each: each.began)
    return pa.Table.from_pylist([each.row() for each in found], SCHEMA)


class _History:
    """Walks what producers and coordinators said, in order of time."""

    def __init__(self) -> None:
        self.found: list[Transaction] = []
        self._open: dict[tuple[str, str], Transaction] = {}  # by protocol and producer id, or Pulsar's id
        self._names: dict[str, tuple[str, int | None]] = {}  # Kafka's producer id -> transactional id, ms allowed

    def take(self, step: Row) -> None:
        """One step: an event of a transaction, or a batch of one."""
        if step["protocol"] == "kafka" and step["error_code"] in ENDED_BY_COORDINATOR:
            producer = str(step["subject"] if step["kind"] == "batch" else step["number"])
            mine = self._open.get(("kafka", producer))
            answered = (step["asked"] or step["time"]) + timedelta(microseconds=(step["total_ns"] or 0) // 1000)
            if over := mine is not None and mine.is_over(answered):
                self._times_out(("kafka", producer), step)
            if over or (producer in self._names and (mine is None or mine.client != step["client"])):
                return  # the producer hears of what was ended before, or never began
        if step["status"] == "error" and step["kind"] != ENDED:
            return
        if step["kind"] == "batch":
            mine = self._of(step, step["subject"], step["number"])
            mine.records += step["records"] or 0
            mine.topics.add(step["topic"] or "?")
        elif step["protocol"] == "pulsar":
            self._pulsar(step)
        elif step["kind"] == BEGAN:
            self._begins_anew(step)
        elif step["kind"] == JOINED:
            self._joins(step)
        else:
            self._ends(step)

    # --- Kafka ---

    def _begins_anew(self, step: Row) -> None:
        for key, one in list(self._open.items()):
            if one.protocol == "kafka" and one.name == step["subject"]:
                if one.is_over(step["time"] - _LOOKS_EVERY):
                    self._times_out(key, step)
                else:
                    self._close(key, step, FENCED)
        if step["text"] is not None:
            self._names[step["text"]] = (step["subject"], step["number"])

    def _joins(self, step: Row) -> None:
        producer = str(step["number"])
        if step["subject"]:
            self._names.setdefault(producer, (step["subject"], None))
        mine = self._of(step, producer, None)
        if step["group"]:
            mine.groups.add(step["group"])
        if step["topic"]:
            mine.topics.add(step["topic"])

    def _ends(self, step: Row) -> None:
        from dissectors.kafka.errors import error  # a table of all: loaded where a transaction of Kafka ends

        producer = str(step["number"])
        if step["subject"]:
            self._names.setdefault(producer, (step["subject"], None))
        mine = self._of(step, producer, None)
        self._close(("kafka", producer), step, COMMITTED if step["text"] == "commit" else ABORTED)
        if step["status"] == "error" and error(step["error_code"] or 0).retriable:
            self._open["kafka", producer] = mine

    def _times_out(self, key: tuple[str, str], step: Row) -> None:
        mine = self._open.pop(key)
        mine.outcome, mine.error = TIMED_OUT, None
        mine.ended = mine.began + timedelta(milliseconds=mine.allowed_ms or 0)
        mine.file, mine.packet = step["file"], step["packet"]

    def _of(self, step: Row, producer: str, epoch: int | None) -> Transaction:
        """The open transaction of a producer; a new one where it has none."""
        known = self._open.get(("kafka", producer))
        name, allowed = self._names.get(producer, (f"producer {producer}", None))
        if known is None:
            known = self._begin(("kafka", producer), step, name, producer)
            known.allowed_ms = allowed
        if epoch is not None and known.producer == producer:
            known.producer = f"{producer}:{epoch}"
        known.name = name
        known.error = None  # with which the coordinator turned down to end it before, for now
        return known

    # --- Pulsar ---

    def _pulsar(self, step: Row) -> None:
        key = ("pulsar", step["subject"] or "")
        if step["kind"] == BEGAN:
            self._begin(key, step, step["subject"], None).allowed_ms = step["number"]
        elif step["kind"] == JOINED:
            if (mine := self._open.get(key)) is not None:
                mine.records += step["records"] or 0
                mine.topics |= {step["topic"]} if step["topic"] else set()
                mine.groups |= {step["group"]} if step["group"] else set()
        elif step["status"] != "error" or step["error_name"] in NOT_THERE:
            if key not in self._open:
                self._begin(key, step, step["subject"], None)
            if step["status"] == "error" and self._open[key].is_over(step["time"]):
                self._times_out(key, step)
                return
            self._close(key, step, COMMITTED if step["text"] == "commit" else ABORTED)

    # --- both ---

    def _begin(self, key: tuple[str, str], step: Row, name: str, producer: str | None) -> Transaction:
        began = step["asked"] or step["time"]
        made = Transaction(
            step["protocol"], name, producer, step["client"], began, file=step["file"], packet=step["packet"]
        )
        self._open[key] = made
        self.found.append(made)
        return made

    def _close(self, key: tuple[str, str], step: Row, outcome: str) -> None:
        mine = self._open.pop(key)
        mine.error = step["error_name"] if step["status"] == "error" else None
        mine.outcome = FAILED if mine.error else outcome
        mine.end_ns = step["total_ns"]
        asked = step["asked"] or step["time"]
        mine.ended = asked + timedelta(microseconds=(step["total_ns"] or 0) // 1000)
        mine.file, mine.packet = step["file"], step["packet"]


TRANSACTIONS = Table(
    "transactions",
    "Transactions of Kafka and Pulsar, one row each: who began it, what it wrote, how long it was open, how it ended.",
    (
        TableColumn("time", "when it began", "time"),
        TableColumn("protocol", "kafka or pulsar"),
        TableColumn("transaction", "transactional id (kafka), id of the transaction (pulsar)"),
        TableColumn("producer", "producer id and epoch (kafka)"),
        TableColumn("client", "who began it"),
        TableColumn(
            "outcome",
            "committed, aborted, timed out (it was open for longer than allowed, so the coordinator aborted it), "
            "fenced (a newer producer of the same id took over), open (no end in the capture), or the error with which "
            "ending it failed",
        ),
        TableColumn("open_ns", "from its first request or batch to its end", "ns"),
        TableColumn("end_ns", "how long the coordinator took to end it", "ns"),
        TableColumn("allowed_ns", "how long it may stay open: then the coordinator aborts it", "ns"),
        TableColumn("records", "messages that it wrote, as far as the capture shows them", "count"),
        TableColumn("topics", "topics that it wrote to", "list"),
        TableColumn("groups", "groups whose offsets it commits", "list"),
        TableColumn("file", "where its end lies, else its beginning"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
    ),
    rows_of(MADE),
    headline=("time", "protocol", "transaction", "client", "outcome", "open_ns", "records", "topics", "file", "packet"),
    order=("time", "transaction"),
)
SCHEMA = schema_of(TRANSACTIONS)
