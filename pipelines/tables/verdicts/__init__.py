"""What is wrong: the table `verdicts`. Nothing else in brokerscope judges a capture.

kinds.py       kinds of verdicts: severity, meaning, advice
thresholds.py  from where on something is worth a verdict, with reasons
capture.py     the records as checks see them
check.py       what a check needs, so that it is asked only of captures that have such rows
verdict.py     what a verdict is, and how rows are put together for one
evidence.py    the rows that a verdict counts, found again in the records
say.py         words of sentences
told.py        checks that are a query, keys and a sentence: rows of the tables in tuned.py and shown.py
engine.py      all checks, ranked
others         checks with more to them, a module a subject

Verdicts are made in this process, by DuckDB over record files, whichever engine made these: they are words about a few
rows, and the same code gives the same words. A check groups in the database and takes at most EVIDENCE places of what
it counts, so memory is bounded as it is for the page.
"""

from __future__ import annotations

import pyarrow as pa

from pipelines.tables.table import Table, TableColumn, rows_of, schema_of
from pipelines.tables.verdicts.kinds import HARMS

JUDGED, HARMED = "judged", "harmed"
"""The relations that the two tables are read from: what `engine.judged` gave."""

VERDICTS = Table(
    "verdicts",
    "What is wrong: one row each, the worst first; the kinds are in [verdicts.md](verdicts.md). `count` counts the "
    "rows that `evidence` names, of which it holds at most 10,000 (fewer where a check gives more than 10 verdicts); "
    "lists of names hold at most 20.",
    (
        TableColumn("rank", "1 for the worst: by severity, then by what became of work, then by what it costs", "code"),
        TableColumn("severity", "critical, warning or note"),
        TableColumn("kind", "bad_checksum, throttled, broker_lost …"),
        TableColumn("protocol", "kafka, pulsar or iggy; null where it is about the capture"),
        TableColumn("sentence", "what is wrong, with a number and a name"),
        TableColumn("detail", "what else is worth knowing"),
        TableColumn("advice", "what to do"),
        TableColumn("count", "rows of a record table that it is about", "count"),
        TableColumn("counted", "which table: exchanges, batches, connections or findings"),
        TableColumn("cost_ns", "time that it cost, summed over these", "ns"),
        TableColumn("first_time", "when it began", "time"),
        TableColumn("last_time", "when it ended", "time"),
        TableColumn("client_ids", "how many ids the clients that it concerns give themselves", "count"),
        TableColumn("client_hosts", "on how many addresses they are", "count"),
        TableColumn("clients", "whom it concerns: address and id of each", "list"),
        TableColumn("addresses", "the addresses of these clients", "list"),
        TableColumn("servers", "brokers", "list"),
        TableColumn("topics", "topics", "list"),
        TableColumn("groups", "consumer groups and subscriptions", "list"),
        TableColumn("evidence", "where each counted row is: file, packet, exchange_id and stream_offset", "rows"),
        TableColumn("chain", "causes and effects in order: time, text, file and packet of each", "rows"),
    ),
    rows_of(JUDGED),
    headline=("rank", "severity", "kind", "sentence", "count", "cost_ns", "first_time", "clients", "servers"),
    order=("rank",),
)

IMPACTS = Table(
    "impacts",
    "What became of the work: one row for each piece of work that was not done, done twice or late, and for whom. Each "
    "belongs to one verdict, which says why; where there is none, nothing wrong was seen. What healed at once has no "
    "row.",
    (
        TableColumn("what", "; ".join(f"{name}: {meaning}" for name, meaning in HARMS.items())),
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("client_ip", "whose work it was: address"),
        TableColumn("client_id", "and the name that it gives itself"),
        TableColumn("server", "which broker was asked"),
        TableColumn("topic", "topic"),
        TableColumn("partition", "partition number", "code"),
        TableColumn("group", "consumer group or subscription"),
        TableColumn("transaction", "transactional id"),
        TableColumn("from", "since when", "time"),
        TableColumn("until", "until when; null: until the end of the capture", "time"),
        TableColumn("messages", "how many messages it concerns, as far as known", "count"),
        TableColumn("time_ns", "how long somebody waited: times that overlap count once", "ns"),
        TableColumn("healed", "how the same work was done after all; null where it was not"),
        TableColumn("cause", "the kind of its verdict"),
        TableColumn("certainty", "seen; at least: there may be more; cannot tell: `missing` says why"),
        TableColumn("missing", "what the capture lacks to be certain"),
        TableColumn("evidence", "the rows that show it: file, packet, exchange_id and stream_offset", "rows"),
    ),
    rows_of(HARMED),
    headline=(
        "what", "client_id", "client_ip", "topic", "partition", "group", "from", "until", "messages", "time_ns",
        "cause",
    ),
    order=('"from"', "what", "cause", "topic", "partition"),
)  # fmt: skip

_PLACE = [("file", pa.string()), ("packet", pa.int64()), ("exchange_id", pa.string()), ("stream_offset", pa.int64())]
_PLACES = pa.list_(pa.struct(_PLACE))
_LINKS = pa.list_(pa.struct([("time", pa.timestamp("us", "UTC")), ("text", pa.string()), *_PLACE[:2]]))
SCHEMA = schema_of(VERDICTS, rank=pa.int32(), evidence=_PLACES, chain=_LINKS)
IMPACT_SCHEMA = schema_of(IMPACTS, partition=pa.int32(), evidence=_PLACES)
