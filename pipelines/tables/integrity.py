"""What the checksums say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from pipelines.sql.words import CLIENT
from pipelines.tables.dialect import Dialect
from pipelines.tables.table import Ask, Table, TableColumn, bucket

LISTED = 10_000  # bad batches in their table
VERDICTS = ("ok", "bad", "unverifiable", "absent")
HOUR_US = 3_600_000_000


def _integrity(d: Dialect, ask: Ask) -> str:
    keys = f"protocol, topic, {CLIENT}, hour, role, checksum_kind"
    verdicts = ", ".join(f"{_of(d, 'batches', verdict)} as {verdict}" for verdict in VERDICTS)
    # the client's name is put together for groups, of which there are few, not for batches
    return f"""
        with counted as (
            select protocol, topic, client_ip, client_id, hour, role, checksum_kind, verdict, count(*) as batches,
                {d.total("stored_bytes")} as stored_bytes
            from (select *, {bucket(d, "time", HOUR_US)} as hour from batches)
            group by protocol, topic, client_ip, client_id, hour, role, checksum_kind, verdict
        )
        select protocol, topic, {CLIENT} as client, hour, role, checksum_kind, {d.total("batches")} as batches,
            {verdicts}, {d.total("stored_bytes")} as stored_bytes,
            {_of(d, "stored_bytes", "ok", "bad")} as verified_bytes
        from counted group by {keys}
    """


def _of(d: Dialect, value: str, *verdicts: str) -> str:
    """Sum of a value over rows of some verdicts; 0 where there are none."""
    known = ", ".join(f"'{verdict}'" for verdict in verdicts)
    return f"coalesce({d.total(f'case when verdict in ({known}) then {value} end')}, 0)"


INTEGRITY = Table(
    "integrity",
    "Checksums, verified: one row per topic, client, hour, role and kind of checksum.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("topic", "topic name"),
        TableColumn("client", "client address and the name it gives itself"),
        TableColumn("hour", "the hour (UTC) in which the batches passed", "time"),
        TableColumn("role", "produce, consume or replicate"),
        TableColumn("checksum_kind", "crc32, crc32c, xxh3-64 or none"),
        TableColumn("batches", "checksummed units", "count"),
        TableColumn("ok", "the checksum holds", "count"),
        TableColumn("bad", "every byte was captured, and the checksum does not hold", "count"),
        TableColumn("unverifiable", "bytes that it covers were not captured", "count"),
        TableColumn("absent", "none on the wire", "count"),
        TableColumn("stored_bytes", "size on the wire", "bytes"),
        TableColumn("verified_bytes", "size of those with a verdict ok or bad", "bytes"),
    ),
    _integrity,
    headline=(
        "protocol", "topic", "client", "hour", "role", "checksum_kind", "batches", "ok", "bad", "unverifiable",
        "absent",
    ),
    order=(
        "bad desc", "unverifiable desc", "batches desc", "protocol", "topic", "client", "hour", "role", "checksum_kind",
    ),
)  # fmt: skip


CASES = "cases"  # what forensics found out about bad batches, beside the record tables
CASE_COLUMNS = (
    TableColumn("pattern", "what broke: single_bit, burst, zeroed_run … (docs/forensics.md)"),
    TableColumn("proven", "the corrected bytes match the checksum"),
    TableColumn("broken", "the first broken bit or byte: packet, byte of the packet, bit"),
    TableColumn("field", "the field and the record that it falls into"),
    TableColumn("broke", "where: before_tcp, after_tcp, producer, broker or undecided"),
    TableColumn("certainty", "certain, likely or undecided"),
    TableColumn("because", "the reasons"),
)
CASE_KEYS = {
    "connection": pa.string(), "incarnation": pa.int32(), "stream_offset": pa.int64(), "role": pa.string(),
    "file": pa.string(), "packet": pa.int64(),
}  # fmt: skip
CASE_SCHEMA = pa.schema(
    [*CASE_KEYS.items(), *((c.name, pa.bool_() if c.name == "proven" else pa.string()) for c in CASE_COLUMNS)]
)
_BAD = (
    "protocol", "time", "topic", "partition", "position", "role", "records", "stored_bytes", "checksum_kind",
    "checksum_stored", "checksum_computed", "outcome", "connection", "file", "packet",
)  # fmt: skip


def _corrupt(d: Dialect, ask: Ask) -> str:
    batch = ", ".join(f"b.{name}" for name in _BAD)
    same = " and ".join(f"b.{key} = c.{key}" for key in CASE_KEYS)
    place = ("time", "file", "packet", "stream_offset", "position")
    return f"""
        select {batch}, {", ".join(column.name for column in CASE_COLUMNS)}
        from batches b left join {CASES} c on {same}
        where b.verdict = 'bad'
        order by {", ".join(f"b.{name} nulls last" for name in place)} limit {LISTED}
    """


def case_table(cases: Sequence[dict[str, Any]]) -> pa.Table:
    """The JSON objects of cases as a table; of a batch with several bad checksums the first."""
    rows = {tuple(case[key] for key in CASE_KEYS): case_row(case) for case in reversed(cases)}
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(CASE_SCHEMA)
    return pa.table([pa.array(c, f.type) for c, f in zip(columns, CASE_SCHEMA, strict=True)], schema=CASE_SCHEMA)


def case_row(case: dict[str, Any]) -> tuple[Any, ...]:
    """The JSON object of a case as a row of CASE_SCHEMA."""
    diagnosis, attribution = case["diagnosis"], case["attribution"]
    spot = next(iter(diagnosis["locations"]), None)
    return (
        *(case[key] for key in CASE_KEYS),
        diagnosis["pattern"],
        diagnosis["verified"],
        spot and place(spot),
        spot and spot["field"],
        attribution["where"],
        attribution["certainty"],
        "; ".join(attribution["because"]),
    )


def place(spot: dict[str, Any]) -> str:
    """A location in words."""
    byte = "" if spot["packet_offset"] is None else f", byte {spot['packet_offset']}"
    return f"packet {spot['packet']}{byte}" + ("" if spot["bit"] is None else f", bit {spot['bit']}")


CORRUPT = Table(
    "corrupt",
    f"Batches whose checksum does not hold, and what forensics says of them: one row each, the first {LISTED}.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("time", "first byte of the batch", "time"),
        TableColumn("topic", "topic name"),
        TableColumn("partition", "partition number", "code"),
        TableColumn("position", "offset, or ledger:entry"),
        TableColumn("role", "produce, consume or replicate"),
        TableColumn("records", "messages in it", "count"),
        TableColumn("stored_bytes", "size on the wire", "bytes"),
        TableColumn("checksum_kind", "crc32, crc32c or xxh3-64"),
        TableColumn("checksum_stored", "as on the wire"),
        TableColumn("checksum_computed", "over the bytes captured"),
        TableColumn("outcome", "what the answer said of a produced batch"),
        TableColumn("connection", "client ip:port>server ip:port"),
        TableColumn("file", "where its first byte is"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
        *CASE_COLUMNS,
    ),
    _corrupt,
    headline=(
        "protocol", "topic", "position", "role", "stored_bytes", "checksum_kind", "pattern", "broken", "field", "broke",
        "certainty", "file", "packet",
    ),
    order=("time", "file", "packet", "position"),
)  # fmt: skip
