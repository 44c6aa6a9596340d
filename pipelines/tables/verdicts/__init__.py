"""What is wrong: the table `verdicts`. Nothing else in brokerscope judges a capture.

kinds.py       kinds of verdicts: severity, meaning, advice
thresholds.py  from where on something is worth a verdict, with reasons
capture.py     the records as checks see them
check.py       what a check needs, so that it is asked only of captures that have such rows
verdict.py     what a verdict is, and how rows are put together for one
evidence.py    the rows that a verdict counts, found again in the records
say.py         words of sentences
engine.py      all checks, ranked
others         checks, a module a subject

Verdicts are made in this process, by DuckDB over record files, whichever engine made these: they are words about a few
rows, and the same code gives the same words. A check groups in the database and takes at most EVIDENCE places of what
it counts, so memory is bounded as it is for the page.
"""

from __future__ import annotations

from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn
from pipelines.tables.verdicts.verdict import SCHEMA

JUDGED = "judged"
"""The relation that the table is read from: what `engine.judged` gave."""


def _verdicts(d: Dialect, ask: Ask) -> str:
    return f"select {', '.join(d.quoted(name) for name in SCHEMA.names)} from {JUDGED}"


VERDICTS = Table(
    "verdicts",
    "What is wrong: one row each, the worst first; the kinds are in [verdicts.md](verdicts.md). `count` counts the "
    "rows that `evidence` names, of which it holds at most 10,000; lists of names hold at most 20.",
    (
        TableColumn("rank", "1 for the worst: by severity, then by what it costs", "code"),
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
        TableColumn("clients", "whom it concerns", "list"),
        TableColumn("servers", "brokers", "list"),
        TableColumn("topics", "topics", "list"),
        TableColumn("groups", "consumer groups and subscriptions", "list"),
        TableColumn("evidence", "where each counted row is: file, packet, exchange_id and stream_offset", "rows"),
        TableColumn("chain", "causes and effects in order: time, text, file and packet of each", "rows"),
    ),
    _verdicts,
    headline=("rank", "severity", "kind", "sentence", "count", "cost_ns", "first_time", "clients", "servers"),
    order=("rank",),
)
