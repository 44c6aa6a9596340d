"""Made-up records of a small cluster, for everything after the records: a little of everything that tables show."""

import random
from typing import Any

import pyarrow as pa

from dissectors import records
from dissectors.records import (
    PACKET_SHIFT,
    Batch,
    Conn,
    Connection,
    Error,
    Event,
    Exchange,
    Finding,
    Message,
    Position,
    Stall,
)
from dissectors.rows.sink import to_batch

FILES = ["captures/client.pcap", "captures/broker <b>.pcap"]
START = 1_760_000_000_000_000_000  # ns
MS = 1_000_000
HOSTILE = "<script>alert(1)</script>\x1b[31m=cmd()"
PORTS = {"kafka": 9092, "pulsar": 6650, "iggy": 8090}
APIS: dict[str, list[tuple[str, int, int | None]]] = {
    "kafka": [("Produce", 0, 9), ("Fetch", 1, 12), ("Metadata", 3, 9)],
    "pulsar": [("SEND", 6, None), ("PRODUCER", 5, None)],
    "iggy": [("SEND_MESSAGES", 101, None), ("POLL_MESSAGES", 100, None)],
}


def packet_ref(packet: int, file: int = 0) -> int:
    return file << PACKET_SHIFT | packet


def make(seed: int = 1, exchanges: int = 300, seconds: int = 30) -> dict[str, pa.Table]:
    """Tables of records, the same for the same arguments."""
    rng = random.Random(seed)
    rows: dict[str, list[Any]] = {name: [] for name in records.TABLES}
    conns = {
        protocol: [Conn("site", f"10.0.0.{2 + i}", 40000 + i, "10.0.0.1", port, 0, protocol) for i in range(3)]
        for protocol, port in PORTS.items()
    }
    for some in conns.values():
        for conn in some:
            rows["connections"].append(_connection(conn, rng, seconds))
    offset = 0
    for n in range(exchanges):
        protocol = rng.choice(list(PORTS))
        conn = rng.choice(conns[protocol])
        api, code, version = rng.choice(APIS[protocol])
        time = START + n * seconds * 1000 * MS // exchanges
        wait = int(rng.lognormvariate(0, 1) * MS) * (30 if n % 9 == 0 else 1)
        fails = rng.random() < 0.05
        unanswered = rng.random() < 0.02
        poll = api in ("Fetch", "POLL_MESSAGES") and rng.random() < 0.3
        topic = HOSTILE if n % 50 == 0 else f"topic-{n % 4}"
        rows["exchanges"].append(
            Exchange(
                conn, kind="unanswered" if unanswered else "call", api=api, api_code=code, version=version,
                correlation_id=n, client_id=f"client-{conn.client_port}", time=time, request_ns=1000,
                wait_ns=None if unanswered else wait + poll * 500 * MS, response_ns=2000,
                total_ns=None if unanswered else wait + poll * 500 * MS + 3000, request_bytes=100, response_bytes=200,
                status="unknown" if unanswered else "error" if fails else "ok", error_code=6 if fails else None,
                error_name="NOT_LEADER_OR_FOLLOWER" if fails else None, error_count=int(fails), topics=[topic],
                partitions=1, records=10, long_poll=poll, retransmitted=False, complete=True,
                queued_ns=None if unanswered or n % 3 else wait // 2, request_packet_ref=packet_ref(n + 1),
                response_packet_ref=packet_ref(n + 2), exchange_id=f"{conn.id}-c{n * 100}",
                throttle_ms=20 if n % 36 == 9 else None,
            )
        )  # fmt: skip
        if fails:
            rows["errors"].append(
                Error(
                    conn, api, version, "partition", topic, 0, 6, "NOT_LEADER_OR_FOLLOWER", True, None,
                    f"client-{conn.client_port}", n, time + wait, packet_ref(n + 2), n % 2 == 0,
                )
            )  # fmt: skip
        for role, delay in (("produce", 0), ("consume", 5 * MS)):
            bad = n == 17 and role == "consume"
            within = role == "consume" and n % 4 == 0  # a poll of Iggy that begins in the middle of a send
            rows["batches"].append(
                Batch(
                    conn, role, topic, 0, offset, offset + 9, str(offset), 10, "zstd", 400, keyed=n % 2 == 0,
                    uncompressed_bytes=1000, format="2", checksum_kind="crc32c", checksum_stored="0x1",
                    checksum_computed="0x2" if bad else "0x1", verdict="bad" if bad else "ok", outcome="ok",
                    correlation_id=n, api=api, time=time + delay, packet_ref=packet_ref(n + 1), stream_offset=n * 100,
                    origin_timestamp=time + within * 1000 if conn.protocol == "iggy" else None,
                )
            )  # fmt: skip
        rows["messages"].append(
            Message(
                conn, "produce", topic, 0, offset, str(offset), time, key_bytes=None, value_bytes=3,
                key=None, value=b"\x00\xff\n", headers='{"a": 1}', time=time, packet_ref=packet_ref(n + 1),
            )
        )  # fmt: skip
        rows["positions"] += _positions(conn, n, topic, offset, time)
        if n % 40 == 0 and conn.protocol == "kafka":
            rows["events"].append(_epoch(conn, n, time))
        rows["events"] += _happened(conn, n, topic, time)
        rows["events"] += _changed(conn, n, topic, time)
        if n % 9 == 0:
            rows["stalls"].append(_stall(conn, n, time, wait))
        offset += 10
    rows["findings"] += [
        Finding(
            conns["kafka"][0], "checksum_mismatch", "error", "server", f"Bad {HOSTILE}", START, packet_ref(9), 10, 20,
            '{"a": 1}',
        ),
        Finding(None, "truncated_file", "warning", None, "The file ends inside a packet", None, packet_ref(300, 1)),
    ]  # fmt: skip
    return {
        name: pa.Table.from_batches(
            [to_batch(name, made, FILES, full=name == "exchanges", payloads=name == "messages")]
        )
        for name, made in rows.items()
    }


def _positions(conn: Conn, n: int, topic: str, offset: int, time: int) -> list[Position]:
    """Where the topic ends, who leads it, and a group that commits now and then, within a transaction or not."""
    common: dict[str, Any] = {"topic": topic, "partition": 0, "time": time, "packet_ref": packet_ref(n + 2)}
    made = [Position(conn, what="high_watermark", value=offset + 10, api="Fetch", **common)]
    if n % 7 == 0:
        back = 40 if n % 35 == 0 else 0
        made.append(
            Position(conn, what="committed", value=max(0, offset - back), group="g", api="OffsetCommit", **common)
        )
    if n % 11 == 0:
        made.append(Position(conn, what="pending", value=offset, group="g", transaction=f"tx-{n % 2}", **common))
    if n % 13 == 0:
        ended = {**common, "topic": None, "partition": None}
        made.append(Position(conn, what="transaction", value=n % 2, transaction=f"tx-{n % 2}", **ended))
    if n % 17 == 0:
        leader, epoch = 1 + n // 100, max(0, n // 100 - (n % 51 == 0))
        isr = [str(replica) for replica in range(1, 3 + n % 2)]
        made.append(
            Position(conn, what="leader", value=leader, leader=str(leader), leader_epoch=epoch, isr=isr, **common)
        )
    if n % 5 == 0:
        made.append(Position(conn, what="fetch", value=max(0, offset - n % 10), replica=2, **common))
    return made


def _epoch(conn: Conn, n: int, time: int) -> Event:
    """A member of a group hears of an epoch, which changes now and then."""
    exchange = f"{conn.id}-c{n * 100}"
    return Event(
        conn, "epoch", group="epochs", subject=f"member-{conn.client_port}", number=1 + n // 160,
        text="first" if n < 160 else None, client_id=f"client-{conn.client_port}", direction="server",
        correlation_id=n, api="ConsumerGroupHeartbeat", time=time, packet_ref=packet_ref(n + 2), exchange_id=exchange,
    )  # fmt: skip


def _happened(conn: Conn, n: int, topic: str, time: int) -> list[Event]:
    """Members that come and go, sometimes told twice, and transactions that begin and end."""
    common: dict[str, Any] = {
        "client_id": f"client-{conn.client_port}", "direction": "server", "time": time,
        "packet_ref": packet_ref(n + 2), "exchange_id": f"{conn.id}-c{n * 100}",
    }  # fmt: skip
    made = []
    if n % 6 < 2:
        kind = "left" if n % 18 == 12 else "closed_by_broker" if n % 18 == 13 else "joined"
        group = "0" if conn.protocol == "iggy" and n % 12 == 0 else "g"
        made.append(Event(conn, kind, topic, group=group, subject=f"member-{n % 5}", number=n // 60, **common))
    if n % 45 == 1 and conn.protocol == "iggy":
        made.append(Event(conn, "named", topic, group="g", number=0, **common))
    if n % 16 == 3 and conn.protocol != "iggy":
        kind = ("transaction_began", "transaction_joined", "transaction_ended")[n // 16 % 3]
        text = {"transaction_began": "7", "transaction_ended": "abort" if n % 5 else "commit"}.get(kind)
        made.append(Event(conn, kind, topic, subject="tx", number=7, text=text, **common))
    return made


def _changed(conn: Conn, n: int, topic: str, time: int) -> list[Event]:
    """Logins, and what clients created, deleted and altered, and what brokers said of settings in between."""
    common: dict[str, Any] = {
        "client_id": f"client-{conn.client_port}", "direction": "server", "time": time,
        "packet_ref": packet_ref(n + 2), "exchange_id": f"{conn.id}-c{n * 100}",
    }  # fmt: skip
    topical = {"topic": topic, "thing": "topic", **common}
    subscription = {"topic": topic, "thing": "subscription", "group": f"s-{n % 2}", **common}
    made: dict[int, list[Event]] = {
        0: [Event(conn, "authenticated", subject=f"user-{n % 3}", number=0 if n % 5 else 58, **common)],
        1: [Event(conn, "created", number=n % 4 // 3 * 36, text="partitions=2, retention.ms=9", **topical)],
        2: [Event(conn, "altered", number=0, text=f"retention.ms={n}", **topical),
            Event(conn, "altered", number=6, text="cleanup.policy+=compact", **topical)],
        3: [Event(conn, "described", text=f"cleanup.policy=delete, retention.ms={n}", **topical)],
        4: [Event(conn, "altered", number=0, text=f"partitions={n}", **topical),
            Event(conn, "deleted", subject="alice", thing="acl", number=0, text="allow READ on all = everything",
                  **common)],
        5: [Event(conn, "altered", topic, 0, "billing", thing="offsets", number=0, text=f"offset={n}",
                  api="OffsetCommit" if n % 2 else "AlterShareGroupOffsets", **common)],
        6: [Event(conn, "subscribed", number=0, text="type=Shared", **subscription)],
        7: [Event(conn, "deleted", number=0 if n % 3 else 5, api="UNSUBSCRIBE", **subscription)],
        8: [Event(conn, "registered", topic, thing="schema", number=0, text=f"type=Avro, version={n // 60}",
                  **common)],
    }  # fmt: skip
    return made.get(n // 3 % 12, [])


def _stall(conn: Conn, n: int, time: int, wait: int) -> Stall:
    """What held back an exchange for a part of its wait, its request or its answer, as its number has it."""
    kind = ("resend_timeout", "fast_retransmit", "zero_window", "delayed_ack")[n // 9 % 4]
    start, end = ((time, time + wait // 2), (time + wait // 4, time + wait + 1500))[n % 2]
    return Stall(conn, kind, ("client", "server")[n // 36 % 2], start, end - start, n * 100, packet_ref(n + 2))


def resent() -> dict[str, pa.Table]:
    """Two batches of one producer, one of them sent again, and a third that the broker refused."""
    made = make()
    conn = Conn("site", "10.0.0.2", 40000, "10.0.0.1", 9092, 0, "kafka")
    sends = [(0, "unknown"), (0, "ok"), (10, "ok"), (20, "error")]
    rows = [
        Batch(
            conn, "produce", "topic", 0, records=10, stored_bytes=400, producer="7", producer_epoch=0,
            base_sequence=sequence, checksum_stored=f"0x{sequence:x}", verdict="ok", outcome=outcome, correlation_id=n,
            time=START + n * MS, packet_ref=packet_ref(n + 1), stream_offset=n * 500,
        )
        for n, (sequence, outcome) in enumerate(sends)
    ]  # fmt: skip
    return {**made, "batches": pa.Table.from_batches([to_batch("batches", rows, FILES)])}


def made_anew() -> dict[str, pa.Table]:
    """Two places of a topic that was made anew, each produced twice, and what consumers got before, between and after.

    Of the second place, the first production has no checksum, and two came at the same time.
    """
    made = make()
    conn = Conn("site", "10.0.0.2", 40000, "10.0.0.1", 9092, 0, "kafka")
    sightings = [
        ("consume", "1", 0, "0xa"), ("produce", "1", 1, "0xa"), ("consume", "1", 3, "0xa"), ("produce", "1", 10, "0xb"),
        ("consume", "1", 14, "0xb"), ("consume", "1", 15, "0xa"), ("consume", "1", 10, None),
        ("produce", "2", 1, None), ("consume", "2", 2, "0xc"), ("produce", "2", 20, "0xd"), ("produce", "2", 20, "0xc"),
        ("consume", "2", 26, "0xd"), ("consume", "2", 27, "0xc"),
    ]  # fmt: skip
    rows = [
        Batch(
            conn, role, "topic", 0, position=position, records=1, stored_bytes=100, checksum_stored=checksum,
            verdict="ok", outcome="ok", time=START + at * MS, packet_ref=packet_ref(n + 1), stream_offset=n * 500,
        )
        for n, (role, position, at, checksum) in enumerate(sightings)
    ]  # fmt: skip
    return {**made, "batches": pa.Table.from_batches([to_batch("batches", rows, FILES)])}


def aborted() -> dict[str, pa.Table]:
    """An answer that carries 20 messages of one topic and 20 of another, of which the application receives 30."""
    made = make()
    conn = Conn("site", "10.0.0.2", 40000, "10.0.0.1", 9092, 0, "kafka")
    fetch = Exchange(conn, kind="call", api="Fetch", time=START, records=30, payload_bytes=800, exchange_id="f")
    rows = [
        Batch(
            conn, "consume", topic, 0, records=20, stored_bytes=400, time=START, packet_ref=packet_ref(1),
            exchange_id="f",
        )
        for topic in ("one", "two")
    ]  # fmt: skip
    return {
        **made,
        "exchanges": pa.Table.from_batches([to_batch("exchanges", [fetch], FILES)]),
        "batches": pa.Table.from_batches([to_batch("batches", rows, FILES)]),
    }


def _connection(conn: Conn, rng: random.Random, seconds: int) -> Connection:
    resent = rng.choice([0, 0, 7])
    return Connection(
        conn, client_software="librdkafka" if conn.protocol == "kafka" else None,
        client_version="2.3.0" if conn.protocol == "kafka" else None, tls=False, start_time=START,
        end_time=START + seconds * 1000 * MS, duration_ns=seconds * 1000 * MS, handshake="full", rtt_ns=200_000,
        client_packets=100, server_packets=90, client_bytes=10_000, server_bytes=20_000, retransmissions=resent,
        retransmitted_bytes=resent * 100, duplicates=0, out_of_order=1, gaps=0, gap_bytes=0, cut_bytes=0,
        zero_windows=0, keep_alives=0, closed="fin", frames=200, framed_bytes=29_000, skipped_bytes=1_000,
        pending_bytes=0, packet_ref=packet_ref(1), client_seq=conn.client_port * 50_000,
        server_seq=conn.server_port * 50_000 + conn.client_port,
    )  # fmt: skip
