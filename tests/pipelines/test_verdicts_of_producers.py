"""What is wrong with what producers send: one partition takes most of it, or one of them stops."""

from typing import Any

import pytest

from tests.pipelines.test_verdicts import MS, Row, Rows, call, connection, event, place, said


def sent(at: float, client: int = 1, topic: str = "orders", partition: int = 0, size: int = 20_000) -> Row:
    """A batch; `size` bytes."""
    where = place(at) | {"client_ip": f"10.0.7.{client}", "connection": f"10.0.7.{client}:1>10.0.0.1:9092"}
    return where | {
        "role": "produce", "verdict": "ok", "outcome": "ok", "records": 5, "topic": topic, "partition": partition,
        "stored_bytes": size, "client_id": "shop", "file": "a.pcap", "packet": int(at * 100) + 1,
        "exchange_id": f"{client}-{topic}-{at}", "stream_offset": 0, "codec": "none",
    }  # fmt: skip


def told(batches: Rows, **more: Rows) -> list[tuple[str, str, str]]:
    rows = said(batches=batches, **more)
    return [(row["kind"], row["severity"], row["sentence"]) for row in rows if row["kind"] not in ("unbatched",)]


# --- one of 12 partitions takes most of the load ---


def spread(hot: int, others: int = 11, number: int = 240, **more: Any) -> Rows:
    """Batches of which `hot` in 20 go to partition 7; the rest go in turn to `others` partitions from 8 on."""
    return [sent(n / 2, partition=7 if n % 20 < hot else 8 + n % others, **more) for n in range(number)]


def led(partitions: int, brokers: int = 1) -> Rows:
    """Metadata of a topic of so many partitions, which brokers lead in turn."""
    return [
        place(0) | {"what": "leader", "topic": "orders", "partition": n, "leader": str(n % brokers)}
        for n in range(partitions)
    ]


def test_a_partition_that_takes_most_of_its_topic_is_told_with_figures() -> None:
    assert told(spread(16)) == [
        (
            "hot_partition", "note",
            "Partition 7 of topic orders took 80 % of the 4.58 MiB that were seen going to its 12 partitions, 9.6 "
            "times an even share.",
        )
    ]  # fmt: skip
    ((_, _, sentence),) = told(spread(20), positions=led(12))  # nobody sent anything to the others
    assert "took 100 % of the 4.58 MiB that were seen going to its 12 partitions" in sentence


@pytest.mark.parametrize(
    ("batches", "positions"),
    [
        pytest.param(spread(2), [], id="an even spread"),
        pytest.param(spread(9), [], id="less than half"),
        pytest.param(spread(16, 4), [], id="few partitions"),
        pytest.param(spread(20), [], id="the only partition that is known"),
        pytest.param(spread(10, 1), led(12, 6), id="those of two brokers, of six that there are"),
        pytest.param(spread(16, number=80), [], id="few batches"),
        pytest.param(spread(16, size=200), [], id="few bytes"),
        pytest.param(spread(16, topic="__consumer_offsets"), [], id="a topic of Kafka's own"),
        pytest.param(spread(16, topic="persistent://a/b/__change_events"), [], id="of Pulsar's own"),
        pytest.param(spread(16, topic="app-store-changelog"), [], id="a changelog, which is compacted"),
        pytest.param(spread(16, topic="connect-offsets"), [], id="of Kafka Connect"),
        pytest.param(spread(16, topic="mm2-offsets.a.internal"), [], id="of MirrorMaker"),
        pytest.param([row | {"outcome": "error"} for row in spread(16)], [], id="all was refused"),
    ],
)
def test_no_partition_is_hot_where_load_is_even_or_small(batches: Rows, positions: Rows) -> None:
    assert told(batches, positions=positions) == []


# --- a producer stops ---


def sends(client: int, every: float, until: float, since: float = 0) -> Rows:
    return [sent(since + n * every, client, f"t{client}") for n in range(int((until - since) / every))]


def asked(batches: Rows, ms: float = 3) -> Rows:
    ns = int(ms * MS)
    return [
        call(
            0, **{key: row[key] for key in ("time", "client_ip", "connection", "exchange_id")}, total_ns=ns, wait_ns=ns
        )
        for row in batches
    ]


def opened(client: int, end: float = 300, **more: Any) -> Row:
    of = {"client_ip": f"10.0.7.{client}", "connection": f"10.0.7.{client}:1>10.0.0.1:9092"}
    return connection(1, 0, end, **{"closed": "open", "closed_by": None} | of | more)


OTHERS = sends(2, 0.5, 300)
NEXT = [sent(70 + n * 5, 1, "t1-of-tomorrow") for n in range(46)]
BURSTS = [row for at in (0, 70, 140) for row in sends(1, 0.1, at + 10, at)]


def test_a_producer_that_stops_while_others_go_on_is_told() -> None:
    batches = [*sends(1, 0.2, 70), *OTHERS]
    assert told(batches, exchanges=asked(batches), connections=[opened(1), opened(2)]) == [
        (
            "producer_stopped", "note",
            "shop on 10.0.7.1 sent 1,504 messages a minute for topic t1 until 12:01:09, then nothing for 3 min 50 s, "
            "to the end of the capture; its connection stays open.",
        )
    ]  # fmt: skip
    unknown = [row | {"records": None} for row in batches]
    ((_, _, sentence),) = told(unknown, exchanges=asked(batches), connections=[opened(1), opened(2)])
    assert sentence.startswith("shop on 10.0.7.1 sent for topic t1 until 12:01:09, then nothing for ")


@pytest.mark.parametrize(("at", "kinds"), [(75, []), (20, ["producer_stopped"])])
def test_a_producer_of_pulsar_that_the_broker_closed_did_not_stop_by_itself(at: float, kinds: list[str]) -> None:
    batches = [row | {"protocol": "pulsar"} for row in [*sends(1, 0.2, 70), *OTHERS]]
    ends = [opened(n) | {"protocol": "pulsar"} for n in (1, 2)]
    close = call(at, protocol="pulsar", api="CLOSE_PRODUCER", kind="push", client_id="shop")
    closed = [event("closed_by_broker", close, topic="t1")]
    calls = [row | {"protocol": "pulsar"} for row in asked(batches)]
    rows = told(batches, exchanges=[*calls, close], connections=ends, events=closed)
    assert [kind for kind, *_ in rows] == kinds


@pytest.mark.parametrize(
    ("batches", "ms", "more"),
    [
        pytest.param([*sends(1, 0.2, 300), *OTHERS], 3, {}, id="it goes on"),
        pytest.param([*sends(1, 0.2, 70), *OTHERS], 3, {"closed": "fin", "closed_by": "client"}, id="it leaves"),
        pytest.param([*sends(1, 0.2, 260), *OTHERS], 3, {}, id="for less than a minute"),
        pytest.param([*sends(1, 0.2, 25), *OTHERS], 3, {}, id="it had sent for a moment"),
        pytest.param([*sends(1, 0.004, 70), *OTHERS], 3, {}, id="it sent as fast as it could"),
        pytest.param([*sends(1, 0.2, 70), *OTHERS], 190, {}, id="it sent when an answer came"),
        pytest.param([*BURSTS, *OTHERS], 3, {}, id="it sends in bursts"),
        pytest.param([*sends(1, 0.2, 40), *sends(1, 0.2, 100, 70), *OTHERS], 3, {}, id="it had paused before"),
        pytest.param([*sends(1, 0.2, 70), *sends(2, 0.5, 70)], 3, {}, id="nobody goes on"),
        pytest.param([*sends(1, 0.2, 70), *NEXT, *OTHERS], 3, {}, id="it goes on in another topic"),
        pytest.param([*sends(1, 0.2, 70), *OTHERS], 3, {"file": "b.pcap", "end": 70}, id="another capture, which ends"),
    ],
)
def test_a_producer_that_is_done_or_sends_in_bursts_has_not_stopped(batches: Rows, ms: float, more: Row) -> None:
    assert told(batches, exchanges=asked(batches, ms), connections=[opened(1, **more), opened(2)]) == []


# --- a broker tells its clients another address from some time on ---


def asks(at: float, told: str) -> tuple[Row, Row]:
    """A question for metadata by the producer that stops, and what it is told."""
    of = {"client_ip": "10.0.7.1", "connection": "10.0.7.1:1>10.0.0.1:9092"}
    row = call(at, api="Metadata", exchange_id=f"m-{at}", client_id="shop", **of)
    return row, {key: row[key] for key in (*place(0), "exchange_id", "client_id")} | {
        "kind": "advertised", "subject": told, "number": 1, "file": "a.pcap", "packet": 1, "direction": "server",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("before", "since", "told"),
    [
        pytest.param("10.0.0.1:9092", "localhost:9092", "unreachable_address", id="its own machine"),
        pytest.param("10.0.0.1:9092", "10.0.0.1:9092", "producer_stopped", id="as before"),
        pytest.param("localhost:9092", "localhost:9092", "producer_stopped", id="it worked with that"),
    ],
)
def test_a_producer_that_is_sent_to_its_own_machine_has_not_stopped_by_itself(
    before: str, since: str, told: str
) -> None:
    batches = [*sends(1, 0.2, 70), *OTHERS]
    asked_for = [asks(1, before), *(asks(at, since) for at in range(75, 290, 5))]
    rows = said(
        batches=batches,
        exchanges=asked(batches) + [row for row, _ in asked_for],
        events=[event for _, event in asked_for],
        connections=[opened(1), opened(2)],
    )
    (row,) = [row for row in rows if row["kind"] != "unbatched"]
    assert row["kind"] == told
    if told == "unreachable_address":
        assert row["severity"] == "critical"
        assert row["sentence"] == (
            "10.0.0.1:9092 sends shop on 10.0.7.1 to localhost:9092, which is their own machine: asked 43 times in "
            "3 min 30 s, and no broker was used there."
        )


@pytest.mark.parametrize(("times", "stays", "told"), [(1, 0.5, False), (1, 30, True), (5, 0.5, True)])
def test_a_tool_that_asks_once_for_metadata_and_leaves_goes_nowhere(times: int, stays: float, told: bool) -> None:
    asked_for = [asks(1 + n, "localhost:9092") for n in range(times)]
    rows = said(
        exchanges=[row for row, _ in asked_for],
        events=[event for _, event in asked_for],
        connections=[opened(1, times + stays, closed="fin", closed_by="client"), opened(2)],
    )
    assert [row["kind"] for row in rows] == ["unreachable_address"] * told
