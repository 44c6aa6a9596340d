"""What words such as server, service time or expected error mean in SQL: tables, answers, page and verdicts agree.

Each is an expression over the columns of a record table, and reads the same for DuckDB and Spark.
"""

from __future__ import annotations

CLIENT = "concat_ws(' ', client_ip, client_id)"
"""Any record table but connections and findings: who asked, its address and the name that it gives itself."""

_SERVER_IP = "case when server_ip like '%:%' then concat('[', server_ip, ']') else server_ip end"
SERVER = f"concat_ws(':', {_SERVER_IP}, cast(server_port as string))"
"""Any record table: who was asked, as `ip:port` or `[ip]:port`."""

HAS_REQUEST = "kind in ('call', 'unanswered', 'oneway')"
"""exchanges: whether there was a request; pushes and answers alone have none."""

LOGGED_IN = "kind = 'authenticated' and coalesce(number, 0) = 0 and subject is not null"
"""events: whether a client showed who it is, and was not refused; `subject` says who."""

BARRIERS = ("JoinGroup", "SyncGroup")
"""Kafka answers these when the other members of the group have sent theirs: their time is the group's."""

BARRIER = f"coalesce(protocol = 'kafka' and api in {BARRIERS}, false)"
"""exchanges: whether the answer waits for other members of a group."""

HELD = f"(coalesce(long_poll, false) or {BARRIER})"
"""exchanges: whether the broker waited on purpose, in a long poll or at a barrier: its speed is not seen."""

SERVICE_NS = "case when wait_ns is not null then greatest(wait_ns - coalesce(queued_ns, 0), 0) end"
"""exchanges: what the broker itself needed: the wait, less the time behind other requests of the connection."""

EXPLAINED_NS = 20_000_000
"""Requests that took so long, and that the broker did not hold on purpose, have their time told in parts: TCP itself
delays nothing for less, but for the way that packets take (a delayed acknowledgement takes 40 ms)."""

_UNOPENED = "handshake = 'partial' and server_seq is null and coalesce(client_bytes, 0) = 0"
REFUSED = f"({_UNOPENED} and closed = 'reset' and server_packets > 0)"
"""connections: whether the server refused the attempt to connect: only a reset answered the SYN."""
SILENT = f"({_UNOPENED} and coalesce(server_packets, 0) = 0 and client_packets > 1)"
"""connections: whether the server left the attempt to connect without an answer; a single SYN may be a cut capture."""

HELD_NS = f"""case
    when {BARRIER} then greatest(wait_ns - coalesce(queued_ns, 0), 0)
    when coalesce(long_poll, false) and wait_ns - coalesce(queued_ns, 0) >= {EXPLAINED_NS}
        then least(wait_ns - coalesce(queued_ns, 0), coalesce(allowed_ns, wait_ns))
    else 0 end"""
"""exchanges: how long the broker waited on purpose; the queue before it and the answer behind it are not part of it."""

UNHEARD = "select site, connection, incarnation from connections where server_packets = 0"
"""connections: a SELECT of those of which no packet of the server was captured: whether it answered is not known."""

EXCUSED = """
    select site, exchange_id from errors where exchange_id is not null
    group by site, exchange_id having bool_and(coalesce(expected, false))"""
"""errors: a SELECT of the exchanges of which every error is part of normal work."""

UNPACKED_BYTES = """case
    when uncompressed_bytes is null then null
    when coalesce(codec, 'none') = 'none' then stored_bytes
    else uncompressed_bytes end"""
"""batches: bytes without compression, to be compared with `stored_bytes`: what is not compressed has as many as are
stored, for these count the head of the batch and `uncompressed_bytes` does not."""

RELAYED = """
    select distinct site, connection, incarnation, true as relayed from events
    where kind = 'proxied' and subject = 'proxy'"""
"""events: a SELECT of the connections that a proxy opened; the client's side of it has the same deliveries."""

_BROKERS_APIS = (
    "LeaderAndIsr", "StopReplica", "UpdateMetadata", "ControlledShutdown", "Vote", "BeginQuorumEpoch", "EndQuorumEpoch",
    "BrokerHeartbeat", "BrokerRegistration", "ControllerRegistration", "AlterPartition", "FetchSnapshot", "Envelope",
    "AllocateProducerIds", "AssignReplicasToDirs",
)  # fmt: skip
AMONG_BROKERS = f"""(protocol = 'kafka' and (coalesce(api in {_BROKERS_APIS}, false)
    or regexp_extract(coalesce(client_id, ''), '^(broker-[0-9]+-|raft-client-)', 0) <> ''))"""
"""exchanges: whether brokers or controllers of Kafka sent it to each other."""
