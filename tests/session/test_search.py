"""A search for a frame start costs what its budget allows, whatever the bytes are; and gives up in the same place
however they were cut."""

import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL as IGGY
from dissectors.iggy.era import Era
from dissectors.iggy.frames import LEGACY
from dissectors.iggy.loss import resync
from dissectors.iggy.loss.places import Clues
from dissectors.kafka import PROTOCOL as KAFKA
from dissectors.kafka.frames import HEAD
from dissectors.kafka.loss.resync import Resync, _may_be_request, _request_places
from dissectors.kafka.recognise import _Stranger
from dissectors.limits import SEARCH_CANDIDATE_COST, SEARCH_COST_PER_BYTE, SEARCH_CREDIT, Limits
from dissectors.pulsar import PROTOCOL as PULSAR
from dissectors.session.recognition import NONE_OF_OURS, Recognition, candidates
from dissectors.session.search import Judgement, SearchBudget, first_start, places
from tests.feeding import CLIENT, SERVER, feed
from tests.kafka.wire import fetch

PROTOCOLS = (KAFKA, PULSAR, IGGY)
SIZE = 60_000
KAFKA_HEAD = struct.pack(">ihhih", 1 << 20, 0, 9, 7, 8) + b"producer"
ALMOST = {
    "random": random.Random(3).randbytes(SIZE),
    "zeros": bytes(SIZE),
    "ones": b"\xff" * SIZE,
    "text": b"GET key:7 flags VALUE abcdefghijklmnop 0 32\r\n" * (SIZE // 45),
    "Kafka heads": KAFKA_HEAD * (SIZE // len(KAFKA_HEAD)),
    "almost Kafka": (struct.pack(">ihhih", 60, 1, 11, 7, 9) + b"consumer\xff" + bytes(20)) * (SIZE // 43),
    "almost Pulsar": (struct.pack(">IIBB", 40, 36, 8, 6) + b"\x32\x10" + bytes(16)) * (SIZE // 28),
    "almost Iggy": struct.pack("<II", 12, 100) * (SIZE // 8),
    "Iggy pings": struct.pack("<II", 40, 100) * (SIZE // 8),
    "varints": b"\x80" * SIZE,
}


class CountingBudget(SearchBudget):
    """Counts what was judged, and what it cost."""

    def __init__(self) -> None:
        super().__init__()
        self.judged = self.spent = self.largest = 0

    def allows(self, at: int) -> bool:
        allowed = super().allows(at)
        self.judged += allowed
        return allowed

    def settle(self) -> None:
        before = self.left
        super().settle()
        self.spent += before - self.left
        self.largest = max(self.largest, before - self.left)


def everywhere(buf: bytes, begin: int, stop: int, end: int) -> list[int]:
    """Every place may be a frame's start."""
    return list(range(begin, stop))


@pytest.mark.parametrize("cost", [10, 1000, 50_000])
def test_a_search_spends_no_more_than_its_credit_and_what_the_bytes_earn(cost: int) -> None:
    data, budget = bytes(SIZE), CountingBudget()

    def judge(at: int) -> Judgement:
        budget.spend(cost)
        return Judgement.NO

    assert first_start(places(everywhere, 8, data, 0, SIZE), judge, budget, 0, SIZE, 8, True) == (SIZE, False)
    assert budget.largest == cost + SEARCH_CANDIDATE_COST
    assert budget.spent <= SEARCH_CREDIT + SIZE * SEARCH_COST_PER_BYTE + budget.largest
    assert budget.judged + budget.passed_over == SIZE - 7


@given(st.lists(st.integers(1, 999), max_size=8), st.integers(0, 2000))
def test_what_is_passed_over_does_not_depend_on_where_the_bytes_were_cut(cuts: list[int], cost: int) -> None:
    data = bytes(1000)

    def search(stops: list[int]) -> list[int]:
        budget, judged, pos = CountingBudget(), list[int](), 0
        budget.left = 3000

        def judge(at: int) -> Judgement:
            judged.append(at)
            budget.spend(cost)
            return Judgement.NO

        for stop in stops:
            pos, _ = first_start(places(everywhere, 8, data, pos, stop), judge, budget, pos, stop, 8, False)
        return judged

    assert search([*sorted(cuts), 1000]) == search([1000])


@pytest.mark.parametrize("direction", [CLIENT, SERVER])
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=lambda p: str(p.name))
@pytest.mark.parametrize("kind", ALMOST)
def test_bytes_of_any_kind_hold_no_frame_and_cost_what_is_allowed(
    kind: str, protocol: object, direction: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissectors.session.search.new_budget", CountingBudget)
    data = ALMOST[kind]
    _, conversation = feed(
        protocol,  # type: ignore[arg-type]
        [(direction, data)],
        midstream=True,
        cut=lambda whole: [whole[i : i + 1400] for i in range(0, len(whole), 1400)],
    )
    assert conversation.frames == 0
    for budget in conversation._budgets or ():
        assert isinstance(budget, CountingBudget)
        assert budget.spent <= SEARCH_CREDIT + len(data) * SEARCH_COST_PER_BYTE + budget.largest


@pytest.mark.parametrize("kind", ALMOST)
@pytest.mark.parametrize("ports", [(9092, 50000), (6650, 50000), (8090, 50000), (11211, 50000)])
def test_a_foreign_connection_in_mid_stream_is_none_of_ours(kind: str, ports: tuple[int, int]) -> None:
    """By its port it may be taken for one of ours; then it is handed back when it has framed nothing."""
    recognition = Recognition(candidates(PROTOCOLS, ports, None), Limits())
    looks = 0
    for at in range(0, SIZE, 1400):
        looks += recognition.take(0, ALMOST[kind][at : at + 1400])
    verdict = recognition.verdict(opened=False, final=True)
    assert verdict is not None
    assert verdict == NONE_OF_OURS or ports[0] != 11211
    assert looks < 25  # however many segments there are


@settings(max_examples=40)
@given(st.integers(0, 3000), st.integers(1, 400))
def test_a_request_is_recognised_however_the_bytes_before_it_were_cut(before: int, step: int) -> None:
    stream = random.Random(before).randbytes(before) + fetch(7, [("orders", [0])]) + bytes(2000)
    recognition = Recognition(candidates(PROTOCOLS, (12345, 50000), None), Limits())
    for at in range(0, len(stream), step):
        recognition.take(0, stream[at : at + step])
    verdict = recognition.verdict(opened=False, final=True)
    assert verdict is not None
    assert (verdict.protocol, verdict.client) == (KAFKA, 0)


HEADS = (
    bytes(8), b"\0\0\0\x10", b"\0\x01\0\x02", b"\0\x03\0\x0c", b"\xff\xff", b"\x04\0\0\0", b"\x65\0\0\0", b"\x0c\0\0\0",
    b"\xf1\x03\0\0", b"\0\x06client", b"\0\x12\0\x03", b"\x7f\xff\xff\xff", b"\0\x07\0\0", b"\x01", b"\0",
)  # fmt: skip


@settings(max_examples=300)
@given(st.lists(st.sampled_from(HEADS) | st.binary(max_size=3), max_size=30), st.integers(0, 3), st.integers(0, 2))
def test_what_the_columns_leave_out_no_judge_takes_for_a_start(pieces: list[bytes], waiting: int, empties: int) -> None:
    data = b"".join(pieces)
    end = len(data)
    clues = Clues(Era().allowed, 1 << 28, waiting=waiting, empties=min(empties, waiting))
    for direction in (CLIENT, SERVER):
        test, judge, width = resync._SEARCH[LEGACY, direction]
        n = end - width + 1
        kept = set(test(clues, data, 0, n, end)) if n > 0 else set()
        for at in set(range(n)) - kept:
            assert judge(data, at, end, False, clues, SearchBudget()) is Judgement.NO
    n = end - HEAD + 1
    kept = set(_request_places((), data, 0, n, end)) if n > 0 else set()
    for at in set(range(n)) - kept:
        assert not _may_be_request(data, at) or Resync(_Stranger())._judge_alone(data, at, end) is not Judgement.YES
    assert all(_may_be_request(data, at) for at in kept)
