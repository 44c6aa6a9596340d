"""Writes the generated pages of docs/: `python -m pipelines.document docs`."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

import pyarrow as pa

from dissectors import records
from dissectors.findings import KINDS
from pipelines.formats import ddl
from pipelines.spark import options as spark_options
from pipelines.tables.registry import BY, TABLES
from pipelines.tables.verdicts import kinds as verdicts

_NAMES = {
    pa.string(): "text",
    pa.int32(): "int32",
    pa.int64(): "int64",
    pa.bool_(): "bool",
    pa.binary(): "bytes",
    pa.timestamp("us", "UTC"): "timestamp[us, UTC]",
    pa.list_(pa.string()): "list of text",
}
_OPTIONS = {"full": "`--full`", "payloads": "`--payloads`"}
_HEAD = "<!-- Written by `make docs`; change the code, not this page. -->\n"

_RECORDS = """# Records

What `brokerscope dissect` and `brokerscope.dissect()` give, and what `analyze` writes to OUT/records (there with
`date`, the day of the row's time in UTC; [spark.md](spark.md#reading-out) says how to read it). Durations are
nanoseconds from the capture's own clock, sizes are bytes, packet numbers count from 1 within their file as in
Wireshark, and a column is null where its value is not known. In JSON, 64-bit integers are plain numbers, 128-bit ids
are decimal text, bytes are base64, and columns that hold JSON stand as what they hold.
"""

_TABLES = """# Tables

What `brokerscope analyze` computes from the records, in its own process (`--engine local`) or on Spark (`--engine
spark`); both run the same queries and give the same rows. OUT/tables/<name>.parquet holds all rows: a file, or from
Spark a folder of files. OUT/tables/<name>.csv holds the first 100,000, in the order that the table's text names.
Of captures, `brokerscope sql` makes those that a query names, as t_latency and so on: all but `corrupt`.
Columns and figures do not depend on who computes a table, nor on how many records there are. `topic` is Kafka's name;
Pulsar's full name without -partition-N; Iggy's stream/topic.

Percentiles are exact, and one of the values: of n values in order, number ceil(share * n), counted from 1. Those of
hours do not add up to those of a day, which takes the records of the day.

Where several capture points (`site`) saw the same connection, every table but `hops` counts each exchange, batch, error
and finding once, as the point nearest to the server saw it: the one at which answers took least time. What only one
point saw counts too. The records keep what each point saw. The same connection has the same addresses and ports and
overlapping sequence numbers; or, where an address was translated on the way, the same first sequence number in both
directions.

Sums that no 64-bit number holds stand at its largest value.

Time buckets have the width that `--bucket` says; otherwise one that leaves at most 120 buckets with anything in them.
"""

_FINDINGS = """# Findings

Every kind of finding, as the column `kind` of the records `findings` has it. Severity is error where something is
broken or lost, warning where it costs something or will break, info where it is good to know.
"""

_VERDICTS = """# Verdicts

What is wrong: every kind of verdict, as `summary`, the page and the table `verdicts` (in `sql`: `t_verdicts`) have it.
Severity is critical where data is wrong or lost, or where nothing works; warning where somebody waits, retries or
fails; note where it is worth knowing and there is nothing to do now. Errors that a retry healed within two seconds are
notes. Within a severity, what costs most comes first: the time of requests, clients concerned, and rows counted.

Each verdict is one sentence with its rows as evidence: `count` rows of the record table that `counted` names, and where
each of them begins. On the page, a click on what a verdict counts opens these rows and selects them: charts, tables and
figures then show only these requests and batches, until Clear or a second click; of a verdict that counts connections
or findings, all that went over their connections. In SQL, the rows of the first verdict are:

```sql
select x.* from exchanges x
join (select unnest(evidence, recursive := true) from t_verdicts where rank = 1) e
    on x.exchange_id = e.exchange_id and e.file in (x.request_file, x.response_file)
```

Rows of another table are joined by file, packet and stream_offset. What a capture cannot show is not judged: nothing is
said of missing answers where bytes are missing, or where only one direction was captured.
"""

_OPTIONS_PAGE = """# Options on Spark

Sizes are written as Spark writes them: `134217728`, `16m`, `1g`; a `k` is 1024. An option that there is not, or a value
that means nothing, is refused by name before anything begins.
"""

_DDL = """# Record tables in Trino and Athena

OUT/records on an object store, declared as tables: Parquet files, a folder a table, columns by name. An OUT that
`analyze` replaces as a whole is read so. **A store that `--update` keeps is not**, on an object store: its folders hold
files of the commit before too, and a query over the folder would count rows twice. There, engines read the tables of
`--table-format iceberg` ([platform.md](platform.md#iceberg)) or the files that the manifest lists
([spark.md](spark.md#reading-out)).

Put your schema and the URL of OUT/records in place of `brokerscope` and `s3://bucket/out/records`. Columns of `--full`
and `--payloads` are left out: add them, by the types of [records.md](records.md), if you make them. `date` is the day
of a row in UTC; each file holds one day, so a condition on it skips the files of other days by their statistics.
"""

_TRINO = """## Trino

For the Hive connector, whose catalog is called `hive` here. Times are microseconds: set `hive.timestamp-precision =
MICROSECONDS` in the catalog, or `SET SESSION hive.timestamp_precision = 'MICROSECONDS'`.
"""

_ATHENA = """## Athena

Also for other engines that speak Hive's language. Athena shows times to the millisecond.
"""

_SOURCES = """Names of the options below are told apart without regard to case, as Spark does.
"""

_BY = """## Keys of `--by`

`analyze --by topic,client` adds keys to the latency table, after `long_poll`:
"""


def records_page() -> str:
    """docs/records.md."""
    parts = [_HEAD, _RECORDS]
    for name, table in records.TABLES.items():
        rows = [
            (f"`{c.name}`", _NAMES[c.type], c.unit, c.doc + (f" ({_OPTIONS[c.only]})" if c.only else ""))
            for c in records.columns(name, full=True, payloads=True)
        ]
        optional = "" if name in records.DEFAULT_TABLES else " Made only where it is asked for by name."
        doc = (table.__doc__ or "").strip().splitlines()[0]
        parts += [f"## {name}\n\n{doc}{optional}\n", _table(("Column", "Type", "Unit", "Meaning"), rows)]
    return "\n".join(parts)


def tables_page() -> str:
    """docs/tables.md."""
    parts = [_HEAD, _TABLES]
    for name, table in TABLES.items():
        parts += [f"## {name}\n\n{table.doc}\n", _columns(table.columns)]
    parts += [_BY, _columns(BY.values())]
    return "\n".join(parts)


def findings_page() -> str:
    """docs/findings.md."""
    rows = [(f"`{name}`", kind.severity, kind.meaning, kind.advice) for name, kind in sorted(KINDS.items())]
    return "\n".join([_HEAD, _FINDINGS, _table(("Kind", "Severity", "What was seen", "What to do"), rows)])


def verdicts_page() -> str:
    """docs/verdicts.md."""
    rows = [(f"`{name}`", kind.severity, kind.meaning, kind.advice) for name, kind in verdicts.KINDS.items()]
    return "\n".join([_HEAD, _VERDICTS, _table(("Kind", "Severity", "What was seen", "What to do"), rows)])


def options_page() -> str:
    """The options of Spark: docs/options.md."""
    session = _options(spark_options.SESSION, spark_options.PREFIX)
    parts = [_HEAD, _OPTIONS_PAGE, "## Of a session: `--conf NAME=VALUE`\n", session, _SOURCES]
    for name, options in (
        ('`spark.read.format("brokerscope")`', spark_options.ROWS),
        ('`spark.readStream.format("brokerscope")`, besides', spark_options.STREAM),
        ('`spark.read.format("pcap")`', spark_options.SOURCE),
    ):
        parts += [f"## Of {name}\n", _options(options)]
    return "\n".join(parts)


def ddl_page() -> str:
    """The record tables in other engines: docs/ddl.md."""
    parts = [_HEAD, _DDL]
    for text, engine, schema in ((_TRINO, ddl.TRINO, "hive.brokerscope"), (_ATHENA, ddl.HIVE, "brokerscope")):
        made = [ddl.create(engine, table, schema, "s3://bucket/out/records") for table in records.TABLES]
        parts += [text, *(f"```sql\n{statement}\n```\n" for statement in made)]
    return "\n".join(parts)


def _options(options: Iterable[spark_options.Option], prefix: str = "") -> str:
    return _table(("Option", "Meaning"), [(f"`{prefix}{option.name}`", option.doc) for option in options])


def _columns(columns: Iterable[tuple[str, str, str]]) -> str:
    return _table(("Column", "Unit", "Meaning"), [(f"`{name}`", unit, doc) for name, doc, unit in columns])


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines) + "\n"


PAGES: dict[str, Callable[[], str]] = {
    "records.md": records_page,
    "tables.md": tables_page,
    "findings.md": findings_page,
    "verdicts.md": verdicts_page,
    "options.md": options_page,
    "ddl.md": ddl_page,
}


def main(folder: str = "docs") -> None:
    """Write the pages."""
    for name, page in PAGES.items():
        Path(folder, name).write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
