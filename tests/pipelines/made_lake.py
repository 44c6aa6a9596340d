"""Records of a large store, made without decoding: `python -m tests.pipelines.made_lake FOLDER CONNECTIONS TOPICS`.

Each connection has one row, produces and fetches, and the batches that go through both; one request in a hundred has a
finding and an error, and sends the batch of the one before it again. A few answers carry more than the application
receives.
"""

import sys
from pathlib import Path

import duckdb
import pyarrow as pa

from dissectors import records
from pipelines.storage.record_files import place

START_US = 1_760_000_000_000_000
DAY_US = 86_400_000_000
SPAN_US = 3_600_000_000
SERVERS = 50

# What rows of request `i` of `n`, on connection `c`, hold, for batch `b`, at sighting `k` (0 produce, 1 fetch).
_WHERE = {
    "site": "'core'",
    "protocol": "'kafka'",
    "connection": "concat('10.', c % {clients}, ':', c, '>10.9.0.', c % {servers}, ':9092')",
    "incarnation": "0",
    "client_ip": "concat('10.', c % {clients})",
    "client_port": "c % 65536",
    "server_ip": "concat('10.9.0.', c % {servers})",
    "server_port": "9092",
}
_TIME = "make_timestamptz({start} + {span} * (i % {n}) // {n} + k * 5000)"
_TOPIC = "concat('topic-', b // {requests} % {topics})"
_ROWS = {
    "connections": {
        "start_time": _TIME, "end_time": _TIME, "duration_ns": "5000000", "handshake": "'full'", "closed": "'fin'",
        "rtt_ns": "200000", "client_packets": "10", "server_packets": "9", "client_bytes": "1000", "gaps": "i % 7 // 6",
        "server_bytes": "2000", "retransmissions": "i % 11 // 10", "duplicates": "0", "out_of_order": "0",
        "gap_bytes": "100 * (i % 7 // 6)", "zero_windows": "0", "frames": "4", "framed_bytes": "3000",
        "skipped_bytes": "0", "pending_bytes": "0", "client_software": "'librdkafka'", "client_version": "'2.3.0'",
        "file": "'a.pcap'", "packet": "i", "client_seq": "i * 7 % 4294967296", "server_seq": "i * 11 % 4294967296",
    },
    "exchanges": {
        "kind": "case when i % 97 = 0 and k = 1 then 'unanswered' else 'call' end",
        "api": "if(k = 0, 'Produce', 'Fetch')", "api_code": "k", "version": "9 + c % 3", "correlation_id": "k",
        "client_id": "concat('app-', c % 100)", "time": _TIME, "request_ns": "1000",
        "wait_ns": "if(i % 97 = 0 and k = 1, null, 1000000 + hash(i, k) % 50000000)",
        "queued_ns": "if(i % 3 = 0, 500000, null)", "response_ns": "2000",
        "total_ns": "if(i % 97 = 0 and k = 1, null, 1003000 + hash(i, k) % 50000000)", "request_bytes": "100",
        "response_bytes": "200", "status": "if(i % 100 = 0, 'error', 'ok')", "error_count": "(i % 100 = 0)::int",
        "topics": f"[{_TOPIC}]", "partitions": "1", "records": "if(i % 50 = 0, 4, 10)", "payload_bytes": "400",
        "long_poll": "false", "retransmitted": "false", "complete": "true", "request_file": "'a.pcap'",
        "request_packet": "i", "response_file": "'a.pcap'", "response_packet": "i + 1",
        "exchange_id": "concat('x', i, '-', k)",
    },
    "batches": {
        "role": "if(k = 0, 'produce', 'consume')", "topic": _TOPIC, "partition": "b // {topics} % 4",
        "base_offset": "10 * b", "last_offset": "10 * b + 9", "position": "(10 * b)::text", "records": "10",
        "codec": "'zstd'", "stored_bytes": "400", "uncompressed_bytes": "1000", "format": "'2'",
        "producer": "(b % {clients})::text", "producer_epoch": "0", "base_sequence": "b",
        "checksum_kind": "'crc32c'", "checksum_stored": "printf('0x%08x', hash(b) % 4294967296)", "verdict": "'ok'",
        "outcome": "'ok'", "correlation_id": "k", "api": "if(k = 0, 'Produce', 'Fetch')", "time": _TIME,
        "client_id": "concat('app-', c % 100)", "file": "'a.pcap'", "packet": "i", "stream_offset": "100",
        "exchange_id": "concat('x', i, '-', k)",
    },
    "errors": {
        "api": "'Produce'", "scope": "'partition'", "topic": _TOPIC, "code": "6", "name": "'NOT_LEADER_OR_FOLLOWER'",
        "retriable": "true", "client_id": "concat('app-', c % 100)", "time": _TIME, "file": "'a.pcap'", "packet": "i",
        "expected": "i % 200 = 0",
    },
    "findings": {
        "kind": "'gap'", "severity": "if(i % 300 = 0, 'error', 'warning')", "time": _TIME, "file": "'a.pcap'",
        "packet": "i", "message": "'A hole in the capture'", "length": "100",
    },
}  # fmt: skip
_SIGHTINGS = {"exchanges": 2, "batches": 2}
_EVERY = {"errors": 100, "findings": 100}


def make(
    folder: Path, connections: int, topics: int, clients: int = 5_000, *, hour: int = 0, requests: int = 1
) -> Path:
    """Write FOLDER/<table>/<date>~core~part-<hour>.parquet for each table; returns FOLDER.

    hour: of several in one folder; each has connections and batches of its own. requests: produces and fetches of each
    connection.
    """
    given = {
        "n": connections * requests,
        "topics": topics,
        "requests": requests,
        "clients": clients,
        "servers": SERVERS,
        "start": START_US + hour * SPAN_US,
        "span": SPAN_US,
    }
    with duckdb.connect() as database:
        database.execute("set TimeZone = 'UTC'; set memory_limit = '1GB'; set threads = 2")
        for table in records.DEFAULT_TABLES:
            target = folder / place(table, "core", START_US // DAY_US, f"part-{hour}")
            target.parent.mkdir(parents=True, exist_ok=True)
            made = _WHERE | _ROWS[table]
            columns = ", ".join(
                f'cast({made.get(field.name, "null").format(**given)} as {_type(field.type)}) as "{field.name}"'
                for field in records.schema(table)
            )
            first = hour * connections * requests
            numbers = f"range({first}, {first + connections * requests})"
            every = (
                f"select range as i, range // {requests} as c, range - (range % 100 = 7)::bigint as b from {numbers}"
            )
            rows = f"({every}), range({_SIGHTINGS.get(table, 1)}) s(k)"
            chosen = requests if table == "connections" else _EVERY.get(table, 1)
            database.execute(
                f"copy (select {columns} from {rows} where i % {chosen} = 0) "
                f"to '{target}' (format parquet, row_group_size 122880)"
            )
    return folder


def _type(arrow: pa.DataType) -> str:
    names = {"timestamp[us, tz=UTC]": "timestamptz", "string": "text", "bool": "boolean", "double": "double"}
    if pa.types.is_list(arrow):
        return f"{_type(arrow.value_type)}[]"
    return names.get(str(arrow), {"int32": "integer", "int64": "bigint", "binary": "blob"}.get(str(arrow), str(arrow)))


if __name__ == "__main__":
    make(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
