"""Requests that wait, and the formulas of `exchanges`."""

import pytest

import dissectors
from dissectors.records import Conn
from dissectors.rows.layout import ABSENT
from dissectors.rows.sink import Sink
from dissectors.session.closing import Closing
from dissectors.session.exchange import (
    CALL,
    ONE_WAY,
    ORPHAN,
    PUSH,
    UNANSWERED,
    PendingRequest,
    Report,
    elapsed,
    held,
    queued,
)
from dissectors.session.frame import FrameFacts
from dissectors.session.resends import Resends
from dissectors.tcp.chunk import CLIENT, SERVER

FACTS = FrameFacts(CLIENT, 700, 10, 3, 5_000, 6_000, 1, True)
ANSWER = FrameFacts(SERVER, 90, 20, 4, 8_000, 9_000, 2, True)


@pytest.mark.parametrize(
    ("kind", "request_", "response", "initiator"),
    [
        (CALL, FACTS, ANSWER, "client"),
        (CALL, ANSWER, FACTS, "server"),
        (UNANSWERED, ANSWER, None, "server"),
        (ONE_WAY, FACTS, None, "client"),
        (PUSH, None, ANSWER, "server"),
        (ORPHAN, None, ANSWER, "client"),
        (ORPHAN, None, FACTS, "server"),
    ],
)
def test_an_exchange_says_who_began_it(
    kind: str, request_: FrameFacts | None, response: FrameFacts | None, initiator: str
) -> None:
    sink = Sink(("exchanges",))
    report = Report(Conn("here", "a", 1, "b", 2), sink, Resends(), Closing())
    report.finish_exchange(report.open_exchange(kind, PendingRequest(request_, "X", 0), response, None))
    assert [row.initiator for row in sink.exchanges] == [initiator]


@pytest.mark.parametrize("sample", ["kafka-refused", "iggy-messages"])
def test_requests_of_kafka_and_iggy_are_the_clients(sample: str) -> None:
    rows = dissectors.dissect(f"samples/{sample}.pcap", tables="exchanges")["exchanges"].to_pylist()
    assert {row["initiator"] for row in rows if row["kind"] != "push"} == {"client"}


def test_a_number_that_a_row_cannot_hold_is_not_known() -> None:
    request = PendingRequest(None, None, None, correlation_id=1 << 63)
    assert (request.api_code, request.correlation_id) == (ABSENT, ABSENT)


@pytest.mark.parametrize(
    ("start", "end", "ns"), [(5, 9, 4), (5, 5, 0), (9, 5, ABSENT), (ABSENT, 5, ABSENT), (5, ABSENT, ABSENT)]
)
def test_no_time_passes_where_a_clock_ran_backwards_or_an_end_is_missing(start: int, end: int, ns: int) -> None:
    assert elapsed(start, end) == ns


@pytest.mark.parametrize(("before_ns", "ns"), [(ABSENT, 0), (1_000, 0), (6_500, 500), (9_999, 2_000)])
def test_a_request_queues_until_the_answer_before_it_has_gone(before_ns: int, ns: int) -> None:
    assert queued(FACTS, ANSWER, before_ns) == ns


def test_a_request_whose_end_is_missing_did_not_queue_for_any_known_time() -> None:
    cut = FrameFacts(CLIENT, 700, 10, 3, 5_000, ABSENT, 1, False)
    assert queued(cut, ANSWER, 7_000) == ABSENT


def test_a_server_held_a_request_that_took_longer_than_its_data_explains() -> None:
    assert held(5_000_000, ABSENT, ABSENT) == 1
    assert held(5_000_000, 2_000_000, 0) == 0
    assert held(5_000_000, 0, 1_000_000) == 0
    assert held(ABSENT, 0, 0) == ABSENT
