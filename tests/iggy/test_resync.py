"""The way back after holes, and into connections that began before the capture."""

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL, tables
from dissectors.iggy.loss.places import Clues
from dissectors.iggy.loss.resync import search
from dissectors.options import Options
from dissectors.rows.sink import Sink
from dissectors.session.search import SearchBudget
from dissectors.tcp.chunk import Chunk, Gap
from tests.feeding import CLIENT, SERVER, conn, feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS

EVERYTHING = Clues((1 << len(tables.releases())) - 1, 1 << 28)


def middle(era: str) -> list[tuple[int, bytes]]:
    """What follows the login, often enough to be found by."""
    return ERAS[era][2:] * 4


@pytest.mark.parametrize("era", ERAS)
def test_a_connection_that_began_before_the_capture_is_followed(era: str) -> None:
    sink, conversation = feed(PROTOCOL, middle(era), midstream=True)
    calls = [e for e in sink.exchanges if e.kind == "call"]
    assert len(calls) == 12
    assert {e.api for e in calls} == {"SEND_MESSAGES", "POLL_MESSAGES", "PING"}
    assert conversation.skipped_bytes == 0


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("skipped", [1, 7, 30, 61])
def test_a_capture_that_begins_inside_a_frame_finds_the_next_one(era: str, skipped: int) -> None:
    script = middle(era)
    script[0] = (CLIENT, script[0][1][skipped:])
    sink, conversation = feed(PROTOCOL, script, midstream=True)
    calls = [e.api for e in sink.exchanges if e.kind == "call"]
    assert len(calls) >= 10
    assert set(calls) == {"SEND_MESSAGES", "POLL_MESSAGES", "PING"}
    assert len(sink.exchanges) <= 12
    assert conversation.frames + 1 <= 24


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("lost", range(2, 20))
def test_a_lost_write_costs_its_own_exchange_only(era: str, lost: int) -> None:
    script = ERAS[era][:2] + ERAS[era][2:] * 5
    broken = [(d, len(data)) if i == lost else (d, data) for i, (d, data) in enumerate(script)]
    whole, _ = feed(PROTOCOL, script)
    sink, _ = feed(PROTOCOL, broken)
    key = [(e.api, e.time, e.response_packet_ref) for e in whole.exchanges]
    paired = [(e.api, e.time, e.response_packet_ref) for e in sink.exchanges if e.kind == "call"]
    assert set(paired) <= set(key)
    assert len(paired) == len(key) - 1
    assert len(sink.exchanges) <= len(key)


@pytest.mark.parametrize("era", ["iggy-0.4", "iggy-0.5", "iggy-0.7"])
def test_zeros_in_a_payload_are_not_taken_for_answers(era: str) -> None:
    payloads = [bytes(3000), bytes(16) + struct.pack("<II", 0, 8) + bytes(500)]
    size, kind = {"iggy-0.4": (0, ""), "iggy-0.5": (56, "crc32"), "iggy-0.7": (64, "xxh3")}[era]
    run = w.poll_b(payloads, size=size, kind=kind) if size else w.poll_a(payloads)
    polled = w.answer(w.polled(run, 2))
    ask = ERAS[era][4][1]
    script = [*ERAS[era], (CLIENT, ask), (SERVER, 8), (SERVER, polled[8:]), *ERAS[era][2:] * 2]
    sink, _ = feed(PROTOCOL, script)
    assert len([e for e in sink.exchanges if e.kind == "call"]) >= 4 + 5
    assert len(sink.exchanges) == 4 + 1 + 6


@settings(max_examples=100)
@given(st.binary(max_size=600), st.integers(0, 600), st.sampled_from([None, "legacy", "vsr"]), st.sampled_from([0, 1]))
def test_the_answer_never_depends_on_where_the_bytes_were_cut(
    data: bytes, cut: int, framing: str | None, direction: int
) -> None:
    """What is certain of the first part stays; what is not yet a start is not before what was promised."""
    cut = min(cut, len(data))
    early = search(framing, direction, data[:cut], 0, cut, False, EVERYTHING, SearchBudget(), {})
    late = search(framing, direction, data, 0, len(data), False, EVERYTHING, SearchBudget(), {})
    if early[1] and framing is not None:
        assert late == early
    else:
        assert late[0] >= early[0] or framing is None


def test_a_header_cut_off_by_the_snap_length_still_shows_time_and_size() -> None:
    sink = Sink(("exchanges",))
    conversation = PROTOCOL.conversation(conn("iggy"), sink, Options(), midstream=False)
    for step, direction in enumerate((CLIENT, SERVER)):
        time = 1000 * (step + 1)
        conversation.receive(direction, Chunk.of(0, bytes(30), [0], [step * 2 + 1], [step + 1], [time]))
        conversation.receive(direction, Gap(30, 226, "snaplen", step * 2 + 2, step + 1, time))
        conversation.advance()
    conversation.close()
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.status, row.request_bytes, row.complete) == ("call", None, "unknown", 256, False)
    assert row.wait_ns == 1000


def test_payloads_of_every_era_are_still_those_that_were_sent() -> None:
    for era in ERAS:
        sink, _ = feed(PROTOCOL, middle(era), midstream=True)
        assert [m.value for m in sink.messages if m.role == "consume"] == PAYLOADS * 4, era


def test_an_error_with_a_text_is_found_after_a_hole() -> None:
    login = [(CLIENT, w.request(38, w.login(version="0.4.0"))), (SERVER, w.answer(struct.pack("<I", 1)))]
    lost = [(CLIENT, w.request(1)), (SERVER, 8)]
    refused = [(CLIENT, w.request(203, w.number(9))), (SERVER, w.refusal(1009, "Stream with ID: 9 was not found."))]
    sink, conversation = feed(PROTOCOL, [*login, *lost, *refused])
    assert [(e.kind, e.api, e.error_name) for e in sink.exchanges[1:]] == [
        ("unanswered", "PING", None),
        ("call", "DELETE_STREAM", "StreamIdNotFound"),
    ]
    assert conversation.skipped_bytes == 0


def test_the_rest_of_a_torn_answer_does_not_hide_the_next_one() -> None:
    """Payloads full of what may be a header: the next answer begins where the client's next request was answered."""
    confusing = [bytes(4) + struct.pack("<IIQI", 1 << 20, 1, 5, 9) + bytes(200)] * 6
    big = w.answer(w.polled(w.poll_b(confusing, size=64, kind="xxh3"), 6))
    polls = [(CLIENT, w.request(100, w.poll_06())), (SERVER, 200), (SERVER, big[200:])]
    script = [*ERAS["iggy-0.7"], *polls, *ERAS["iggy-0.7"][4:] * 2]
    sink, _ = feed(PROTOCOL, script)
    assert [(e.kind, e.api) for e in sink.exchanges[4:]] == [
        ("unanswered", "POLL_MESSAGES"),
        *[("call", "POLL_MESSAGES"), ("call", "PING")] * 2,
    ]


STORE = w.request(121, b"\1" + w.number(5) + w.STREAM + w.TOPIC + bytes(12))
EMPTY = w.answer(w.polled(w.poll_a([b"A"]), 1))
Script = list[tuple[int, bytes | int]]
LATE: dict[str, Script] = {
    "a hole in the answer before": [(SERVER, w.answer(bytes(60))[:14]), (SERVER, 54), (CLIENT, STORE)],
    "a hole behind bytes that are no frame": [
        (CLIENT, b"these bytes are no frame"), (SERVER, EMPTY), (CLIENT, 43), (SERVER, EMPTY),
    ],
    "junk that the server sent first": [
        (SERVER, b"\x08"), (SERVER, w.vsr_reply(2, id=7)), (CLIENT, w.vsr_request(2, code=1, id=7)),
    ],
    "two requests that are lost": [
        (side, len(data) if n in (0, 4) else data) for n, (side, data) in enumerate(ERAS["iggy-0.7"])
    ],
}  # fmt: skip


@pytest.mark.parametrize("script", LATE.values(), ids=LATE)
def test_what_shows_the_framing_late_changes_no_row(script: Script) -> None:
    feed_every_way(PROTOCOL, script)


def test_what_shows_vsr_late_in_mid_connection_changes_no_row() -> None:
    (_, answer), *rest = ERAS["iggy-vsr-0.9"][1:]
    script: Script = [(SERVER, answer[len(answer) * 9 // 10 :]), *rest]
    script[3] = (script[3][0], len(rest[2][1]))
    feed_every_way(PROTOCOL, script, midstream=True)
