"""What is wrong with requests: of a wrong length, refused by closing, of old formats, or that fetch too little."""

from datetime import timedelta
from typing import Any

import pytest

from dissectors.records import schema
from tests.pipelines.test_verdicts import (
    AT_ONCE,
    MS,
    NOON,
    SECOND,
    UNANSWERED,
    Row,
    Rows,
    behind,
    call,
    connection,
    event,
    place,
    said,
)

CLOSED: dict[str, Any] = {"closed": "fin", "closed_by": "server"}


def about(request: Row, kind: str, message: str, **more: Any) -> Row:
    """A finding about a request."""
    offset = int(request["exchange_id"].rpartition("-c")[2])
    shared = {key: value for key, value in request.items() if key in schema("findings").names}
    return shared | {"kind": kind, "direction": "client", "stream_offset": offset, "message": message} | more


def lost(at: float, offset: int, announced: int, actual: int) -> tuple[Row, dict[str, Rows]]:
    """A request of a wrong length without an answer, and what the decoder says of it."""
    request = call(at, exchange_id=f"abc-c{offset}", version=7, correlation_id=5, request_bytes=announced, **UNANSWERED)
    told = about(request, "wrong_length", "It is shorter than it announces", length=announced)
    return request, {"findings": [told], "events": [event("misframed", request, number=actual)]}


def test_a_request_of_a_wrong_length_is_told_with_what_came_of_it() -> None:
    request, told = lost(1, 550, 518, 481)
    behind = [call(1 + n / 10, exchange_id=f"abc-c{550 + n}", **UNANSWERED) for n in (1, 2)]
    (row,) = said(exchanges=[call(0), request, *behind], **told, connections=[connection(end=9, **CLOSED)])
    assert (row["kind"], row["severity"], row["count"]) == ("framing_lost", "critical", 1)
    for part in ("payer", "10.0.0.1:9092", "Produce", "518", "481"):
        assert part in row["sentence"]
    assert "packet 101 of a.pcap" in row["detail"]
    assert "37 bytes" in row["detail"]
    assert [link["text"] for link in row["chain"]][1:] == [
        "2 requests have no answer behind it", "the broker closed the connection",
    ]  # fmt: skip
    assert [one["exchange_id"] for one in row["evidence"]] == ["abc-c550"]


def test_a_request_that_is_longer_than_it_announces_is_told_too() -> None:
    request, told = lost(1, 550, 500, 510)
    (row,) = said(exchanges=[request], **told, connections=[connection(end=9, skipped_bytes=900)])
    assert row["kind"] == "framing_lost"
    assert "10 bytes lie between" in row["detail"]


def test_a_broker_that_closes_instead_of_an_answer_is_told_with_the_request() -> None:
    request = call(1, version=9, request_bytes=518, **UNANSWERED)
    (row,) = said(exchanges=[request], connections=[connection(end=9, **CLOSED)])
    assert row["kind"] == "closed_unanswered"
    assert row["sentence"] == (
        "10.0.0.1:9092 closed the connection instead of an answer to 1 request of payer on 10.0.0.2: Produce "
        "version 9, 518 B."
    )
    assert row["detail"] == "The first: Produce version 9 of 518 bytes, packet 101 of a.pcap."


@pytest.mark.parametrize("api", ["Produce", "Metadata"])
def test_a_version_that_the_broker_does_not_serve_is_the_cause(api: str) -> None:
    request = call(1, api=api, version=99, request_bytes=80, exchange_id="abc-c40", **UNANSWERED)
    reason = about(request, "unserved_version", "It serves 0 to 9")
    (row,) = said(exchanges=[request], findings=[reason], connections=[connection(end=1.1, **CLOSED)])
    assert row["kind"] == "closed_unanswered"
    assert row["detail"].endswith("It serves 0 to 9.")
    assert "a version of this request in common" in row["advice"]


def test_a_version_that_kafka_4_removed_is_the_cause_unless_this_broker_answers_it() -> None:
    request = call(1, api="Fetch", api_code=1, version=0, request_bytes=80, **UNANSWERED)
    ended = connection(end=1.1, **CLOSED)
    closed = next(row for row in said(exchanges=[request], connections=[ended]) if row["detail"])
    assert closed["kind"] == "closed_unanswered"
    assert closed["detail"].endswith("Brokers refuse this version since Kafka 4.0.")
    answered = call(0, api="Fetch", api_code=1, version=0)
    rows = said(exchanges=[answered, request], connections=[ended])
    assert {row["kind"] for row in rows} == {"removed_apis"}


def test_a_request_over_the_limit_is_the_cause_though_the_broker_read_none_of_it() -> None:
    request = call(1, version=9, request_bytes=(100 << 20) + 1, **(UNANSWERED | {"complete": False}))
    (row,) = said(exchanges=[request], connections=[connection(end=9, **CLOSED)])
    assert row["kind"] == "closed_unanswered"
    assert "socket.request.max.bytes" in row["detail"]
    assert "send less" in row["advice"]
    assert said(exchanges=[request], connections=[connection(end=9, closed="fin", closed_by="client")]) == []


@pytest.mark.parametrize(("answered", "kinds"), [(0, ["closed_unanswered"]), (500, [])])
def test_a_client_that_gives_up_its_first_question_did_not_merely_stop(answered: int, kinds: list[str]) -> None:
    question = call(1, api="ApiVersions", **UNANSWERED)
    ended = connection(end=9, closed="fin", closed_by="client", server_bytes=answered)
    rows = said(exchanges=[question], connections=[ended])
    assert [row["kind"] for row in rows] == kinds
    assert all("Look at the broker" in row["advice"] for row in rows)


def test_resets_at_requests_that_are_too_large_are_told_with_the_requests() -> None:
    ports = range(1, 9)
    sends = [call(n, api="SEND", port=n, request_bytes=6 << 20, exchange_id=f"a-c{n}", **UNANSWERED) for n in ports]
    known = [about(one, "oversized_frame", "A frame larger than the broker allows") for one in sends]
    reset = {"closed": "reset", "closed_by": "server", "reset_by": "server"}
    ended = [connection(port, port - 1, port + 0.5, **reset) for port in ports]
    (row,) = said(exchanges=sends, findings=known, connections=ended)
    assert (row["kind"], row["count"]) == ("closed_unanswered", 8)
    assert "send less" in row["advice"]


def old(of: Row, offset: int, **more: Any) -> Row:
    """A message of format 1 that a request carries."""
    return {
        **place(1), "role": "produce", "verdict": "ok", "format": "magic 1", "records": 1, "topic": "orders",
        "partition": 0, "file": "a.pcap", "packet": of["request_packet"], "exchange_id": of["exchange_id"],
        "stream_offset": offset, "client_id": "payer", "codec": "none",
    } | more  # fmt: skip


def test_old_messages_are_counted_by_request() -> None:
    requests = [call(n) for n in range(2)]
    messages = [old(request, n) for request in requests for n in range(5)]
    (row,) = said(exchanges=requests, batches=messages, connections=[connection()])
    assert (row["kind"], row["count"], row["counted"]) == ("old_message_format", 2, "exchanges")
    assert row["sentence"] == (
        "10 messages in 2 requests of payer on 10.0.0.2 for topic orders have format 1, which brokers must convert."
    )


def test_old_messages_that_are_sent_one_by_one_are_unbatched() -> None:
    requests = [call(n) for n in range(21)]
    messages: Rows = [old(request, 0) for request in requests] + [old(requests[20], 9)]
    rows = said(exchanges=requests, batches=messages, connections=[connection()])
    (row,) = [row for row in rows if row["kind"] != "old_message_format"]
    assert (row["kind"], row["count"]) == ("unbatched", 20)
    assert row["sentence"] == "20 of 21 batches of payer on 10.0.0.2 for topic orders hold one message each."


def test_a_consumer_that_gets_only_the_beginning_of_a_message_is_stuck() -> None:
    fetches = [call(n, api="Fetch", payload_bytes=50, records=0) for n in range(3)]
    fine = [call(4, api="Fetch", payload_bytes=50, records=2), call(5, api="Fetch", payload_bytes=50, topics=["other"])]
    stated = place(0) | {"what": "fetch", "topic": "orders", "partition": 3, "value": 17, "api": "Fetch"}
    (row,) = said(exchanges=[*fetches, *fine], positions=[stated], connections=[connection()])
    assert (row["kind"], row["count"], row["first_time"]) == ("stuck_consumer", 3, NOON)
    assert row["sentence"].startswith("payer on 10.0.0.2 fetched offset 17 of orders-3 3 times")


# --- the capture stands still for 40 s, or its clock is set forward ---


def steady(client: int, every: float = 0.5, pause: float = 40, **more: Any) -> Rows:
    """What a client asks in 15 s, and again after a pause: at 0, 0.5 … 14.5, and from 54.5 on."""
    times = [n * every for n in range(int(15 / every))]
    of = {"client_ip": f"10.0.7.{client}", "connection": f"10.0.7.{client}:{client}>10.0.0.1:9092", "port": client}
    return [
        call(at, exchange_id=f"x{client}-{at}", **AT_ONCE | of | more)
        for at in (*times, *(times[-1] + pause + at for at in times))
    ]


def long(request: Row, ns: int = 40 * SECOND, **more: Any) -> Row:
    return request | {"total_ns": ns, "wait_ns": ns, **more}


def waits(client: int, **more: Any) -> Rows:
    """What `steady` gives, but its last request before the pause is answered only after the pause."""
    rows = steady(client)
    return [long(row, **more) if row["time"] == NOON + timedelta(seconds=14.5) else row for row in rows]


def polls(client: int, broker: int) -> Rows:
    """One fetch, which its broker was allowed to hold for half a second."""
    of = {"client_ip": f"10.0.7.{client}", "connection": f"{client}>{broker}", "server_ip": f"10.0.0.{broker}"}
    return [long(call(14.4, api="Fetch", exchange_id=f"f{client}", allowed_ns=500 * MS, **AT_ONCE | of), 40_200 * MS)]


@pytest.mark.parametrize(
    ("exchanges", "told"),
    [
        pytest.param([*waits(1), *steady(2), *steady(3)], "capture_paused", id="others had nothing to wait for"),
        pytest.param([*waits(1), *polls(2, 1), *polls(3, 2)], "capture_paused", id="the fetches of two brokers"),
        pytest.param([*waits(1), *steady(2)], "slow_requests", id="one other client may wait for the first"),
        pytest.param([*waits(1), *waits(2), *waits(3)], "slow_requests", id="all wait for the broker"),
        pytest.param([*waits(1), *waits(2), *waits(3), *steady(4), *steady(5)], "slow_requests", id="most wait"),
        pytest.param([*waits(1), *polls(2, 1), *polls(3, 1)], "slow_requests", id="the fetches of one broker"),
        pytest.param([*waits(1), *steady(2, 0.7, 3), *steady(3, 0.7, 3)], "slow_requests", id="others go on"),
        pytest.param(
            [*waits(1), *steady(2, 9), *steady(3, 9)], "slow_requests", id="others that ask seldom",
        ),
        pytest.param([*waits(1, total_ns=42 * SECOND), *steady(2), *steady(3)], "slow_requests", id="it waits on"),
        pytest.param(
            [*waits(1), *steady(2, pause=46), *steady(3, pause=46)], "slow_requests", id="others begin again later"
        ),
    ],
)  # fmt: skip
def test_no_broker_is_accused_of_a_wait_while_nothing_was_captured(exchanges: Rows, told: str) -> None:
    rows = [row for row in said(exchanges=exchanges, connections=[connection(end=80)]) if row["kind"] != "slow_tail"]
    assert {row["kind"] for row in rows} - {"fetch_overdue"} == {told}
    if told == "capture_paused":
        (row,) = rows
        assert row["severity"] == "note"
        assert row["sentence"].startswith("From 12:00:14 to 12:00:54 nothing was captured on any connection, though")
        assert row["sentence"].endswith(" to have taken 40.0 s." if len(exchanges) > 70 else "up to 40.2 s.")


def test_each_pause_of_a_capture_is_seen_also_where_a_longer_one_is_idle() -> None:
    def again(rows: Rows) -> Rows:
        return [
            row | {"time": row["time"] + timedelta(seconds=69.5), "exchange_id": row["exchange_id"] + "b"}
            for row in rows
        ]

    once = [*waits(1), *steady(2), *steady(3)]
    (row,) = said(exchanges=once, connections=[connection(end=180)])
    assert row["sentence"].startswith("From 12:00:14 to 12:00:54 nothing was captured")
    (row,) = said(exchanges=[*once, *again(once)], connections=[connection(end=180)])
    assert row["sentence"].startswith("From 12:01:24 to 12:02:04, and once more, nothing was captured")
    assert row["sentence"].endswith("2 requests of payer on 10.0.7.1 seem to have taken up to 40.0 s.")


def test_nor_is_a_group_late_that_committed_before_and_behind_it() -> None:
    times = [*range(1, 15), *range(55, 80)]
    given = behind([(at, n) for n, at in enumerate(times)], [(at, n) for n, at in enumerate(times)])
    at = {n: NOON + timedelta(seconds=second) for n, second in enumerate(times)}
    produced = [
        row | dict.fromkeys(("time", "first_timestamp", "max_timestamp"), at[row["base_offset"]])
        for row in given["batches"]
        if row["role"] == "consume" or row["base_offset"] in at
    ]

    def late(others: Rows) -> list[str]:
        rows = said(**given | {"batches": produced, "exchanges": [*given["exchanges"], *others]})
        return [row["kind"] for row in rows if row["kind"] in ("consumer_behind", "capture_paused")]

    assert late([]) == ["consumer_behind"]
    assert late([*waits(1), *steady(2), *steady(3)]) == ["capture_paused"]


# --- from noon + 60 s on, what clients ask of a broker takes 79 ms longer ---

USUAL_MS = {"Produce": 3, "Heartbeat": 1, "EndTxn": 3, "TxnOffsetCommit": 3}


def then(at: float, client: int, api: str, ms: float) -> Row:
    of = {"client_ip": f"10.0.7.{client}", "connection": f"10.0.7.{client}:1>10.0.0.1:9092", "port": 1}
    ns = int(ms * MS)
    return call(at, api=api, exchange_id=f"{api}{client}-{at}", **AT_ONCE | of | {"total_ns": ns, "wait_ns": ns})


def asked(later: Any, apis: tuple[str, ...] = ("Produce", "Heartbeat"), until: float = 120) -> Rows:
    """What three clients ask, each one API and one question a second; later: ms that it takes more, by its number."""
    return [
        then(at, client, (api := apis[client % len(apis)]), USUAL_MS[api] + (later(at) if 60 <= at < until else 0))
        for client in range(3)
        for at in range(120)
    ]


def opened_then(rtt_ms: float, at: float = 80) -> Row:
    """A connection of one of the clients, opened meanwhile."""
    of = {"client_ip": "10.0.7.0", "connection": f"10.0.7.0:{at}>10.0.0.1:9092"}
    return connection(9, at, at + 1, rtt_ns=int(rtt_ms * MS), **of)


@pytest.mark.parametrize(
    ("exchanges", "opened", "told"),
    [
        pytest.param(asked(lambda at: 79), [], "", id="all kinds"),
        pytest.param(asked(lambda at: 79), [opened_then(1, 1), opened_then(80)], "80.0 ms", id="handshakes too"),
        pytest.param(
            asked(lambda at: 79, ("Produce",)),
            [opened_then(1, 1), opened_then(80)],
            "80.0 ms",
            id="one kind, handshakes",
        ),
        pytest.param(asked(lambda at: 79), [opened_then(80)], "", id="handshakes that may always have been so long"),
        pytest.param(asked(lambda at: 79, ("Produce",)), [opened_then(80)], "slow_tail", id="likewise, of one kind"),
        pytest.param(asked(lambda at: 79), [opened_then(1001)], "", id="a SYN that was sent again"),
        pytest.param(asked(lambda at: 79), [opened_then(100, 1), opened_then(180)], "180 ms", id="it had been long"),
        pytest.param(
            asked(lambda at: 79, ("Produce",)), [opened_then(100, 1), opened_then(100)], "slow_tail", id="long as ever"
        ),
        pytest.param(asked(lambda at: 79, until=90), [], "", id="for half a minute"),
        pytest.param(asked(lambda at: 79, ("Produce",)), [], "slow_tail", id="one kind only"),
        pytest.param(
            asked(lambda at: 79, ("Produce", "EndTxn", "TxnOffsetCommit")), [], "slow_tail", id="all wait for replicas"
        ),
        pytest.param(asked(lambda at: 30 + at * 7 % 100), [], "slow_tail", id="it depends: the broker is busy"),
        pytest.param(
            asked(lambda at: 79, ("Produce",)), [opened_then(1)], "slow_tail", id="quick handshakes: the broker"
        ),
        pytest.param(asked(lambda at: 79 * (at % 10 > 0)), [], "slow_tail", id="some are quick as before"),
        pytest.param(asked(lambda at: 15), [], None, id="a little longer"),
        pytest.param(asked(lambda at: 79, until=66), [], None, id="for a moment"),
        pytest.param([row for row in asked(lambda at: 79) if row["wait_ns"] > 20 * MS], [], None, id="ever since"),
    ],
)
def test_a_path_that_grew_longer_is_told_from_a_slow_broker(exchanges: Rows, opened: Rows, told: str | None) -> None:
    rows = said(exchanges=exchanges, connections=[connection(end=120), *opened])
    warnings = [row["kind"] for row in rows if row["severity"] == "warning"]
    if told in ("slow_tail", None):
        assert warnings == [told] * (told is not None)
    else:
        assert warnings == ["longer_path"]
        row = rows[0]
        assert row["sentence"].startswith("From 12:01:00 to 12:0")
        assert " even the fastest answer of 10.0.0.1:9092 to payer on 3 hosts took 8" in row["sentence"]
        grew = "the path between them grew" if told else "if the path between them had grown"
        assert f" ms, in place of 1.00 ms, as {grew} longer." in row["sentence"].replace("3.00 ms", "1.00 ms")
        assert (row["detail"] or "").endswith(told and f" then took {told}.")


def test_of_three_kinds_of_requests_that_take_longer_each_is_named() -> None:
    rows = said(exchanges=asked(lambda at: 79, ("Produce", "EndTxn", "TxnOffsetCommit")), connections=[connection()])
    assert " the usual EndTxn, Produce and TxnOffsetCommit at 10.0.0.1:9092 took 82.0 ms" in rows[0]["sentence"]


@pytest.mark.parametrize(
    ("exchanges", "told"),
    [
        pytest.param(asked(lambda at: 40 + at * 7 % 80), True, id="the second half"),
        pytest.param(asked(lambda at: 40 + at * 7 % 80, until=105), True, id="for a while"),
        pytest.param(asked(lambda at: 40 + at * 7 % 80, until=80), False, id="for a moment"),
        pytest.param(asked(lambda at: 20 + at * 7 % 20), False, id="by a few milliseconds"),
        pytest.param([row for row in asked(lambda at: 90) if row["wait_ns"] > 60 * MS], False, id="ever since"),
        pytest.param(
            [
                row | {"queued_ns": max(0, row["wait_ns"] - 3 * MS)}
                for row in asked(lambda at: 90 - at % 9, ("Produce",))
            ],
            False,
            id="behind others of their own connection",
        ),
        pytest.param(
            [
                row | {"client_ip": "10.0.7.9"} if row["wait_ns"] > 30 * MS else row
                for row in asked(lambda at: 90 - at % 9)
            ],
            False,
            id="other clients, which come then",
        ),
        pytest.param(
            [
                row | {"acks": -1 if row["wait_ns"] > 30 * MS else 1}
                for row in asked(lambda at: 90 - at % 9, ("Produce",))
            ],
            False,
            id="other acks, which wait for replicas",
        ),
        pytest.param(
            [
                row | {"request_bytes": 1 << (20 if row["wait_ns"] > 30 * MS else 10)}
                for row in asked(lambda at: 90, ("Produce",))
            ],
            False,
            id="requests that are much larger",
        ),
    ],
)
def test_a_broker_at_which_the_usual_request_takes_far_longer_than_before_is_told(exchanges: Rows, told: bool) -> None:
    rows = said(exchanges=exchanges, connections=[connection(end=120), opened_then(0.5)])
    told_of = [(row["kind"], row["sentence"]) for row in rows if row["severity"] == "warning"]
    assert [kind for kind, _ in told_of] == ["slow_tail"] * told
    for _, sentence in told_of:
        assert sentence.startswith("From 12:01:00 to 12:01:")
        assert " the usual Heartbeat and Produce at 10.0.0.1:9092 took 7" in sentence
        assert " ms, in place of 3.00 ms before: " in sentence
