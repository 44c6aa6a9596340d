"""Messages that a group never got because it began behind them, or was put behind them."""

from typing import Any

import pytest

from tests.pipelines.audited import audited
from tests.pipelines.test_audit import Row, Rows, batch, committed, joined, made_of, place

T: Row = {"topic": "t", "partition": 1}


def fetch(at: float, offset: int, client: str = "reader") -> Row:
    return place(at, client) | T | {"what": "fetch", "api": "Fetch", "value": offset, "exchange_id": f"fetch-{at}"}


def end(at: float, offset: int, client: str = "reader") -> Row:
    """What ListOffsets says of the end."""
    said = {"what": "high_watermark", "api": "ListOffsets", "value": offset, "exchange_id": f"list-{at}"}
    return place(at, client) | T | said


def log_start(at: float, offset: int) -> Row:
    return place(at) | T | {"what": "log_start", "api": "Fetch", "value": offset, "exchange_id": f"fetch-{at}"}


def refused(at: float) -> Rows:
    """The exchange and the error of a fetch position that the log does not have."""
    one = place(at) | {"api": "Fetch", "exchange_id": f"fetch-{at}", "request_file": "a.pcap", "request_packet": 7}
    return [one, one | T | {"name": "OFFSET_OUT_OF_RANGE", "code": 1}]


def set_to(at: float, offset: int, code: int = 0) -> Row:
    """An offset that a tool committed for the group."""
    what = {"kind": "altered", "thing": "offsets", "api": "OffsetCommit", "text": f"offset={offset}", "number": code}
    return place(at, "admin") | T | {"group": "g", "exchange_id": f"set-{at}"} | what


def skipped(**given: Rows) -> list[str]:
    exchanges = [joined(0), *given.pop("exchanges", [])]
    connections = [place(0) | {"start_time": place(0)["time"], "gap_bytes": 0, "cut_bytes": 0, "gaps": 0}]
    found = audited(made_of({"exchanges": exchanges, "connections": connections, **given}))
    return [each.sentence for each in found if each.what == "skipped"]


def out_of_range(*positions: Row) -> list[str]:
    exchange, error = refused(10)
    return skipped(positions=[fetch(10, 500), *positions], errors=[error], exchanges=[exchange])


RANGE = (
    "Group g never got 400 messages of topic t, partition 1: its position 500 was out of range, and it went on at 900"
)


@pytest.mark.parametrize(
    ("positions", "said"),
    [
        ([fetch(11, 900)], [f"{RANGE}."]),
        ([fetch(11, 900), log_start(10, 900)], [f"{RANGE}; they had been deleted by then."]),
        ([fetch(11, 900), log_start(10, 600)], [
            f"{RANGE}; 100 of them had been deleted by then, the others were still there."]),
        ([fetch(11, 40)], [
            "Group g stood at 500 of topic t, partition 1, behind the end of the log, and went on at 40: the topic was "
            "created again, or its log was cut off. If the topic is new, it never got 40 messages of it."]),
        ([fetch(11, 0)], []),
        ([fetch(11, 500)], []),
        ([], []),
    ],
)  # fmt: skip
def test_a_position_that_the_log_does_not_have_leads_past_messages(positions: Rows, said: list[str]) -> None:
    assert out_of_range(*positions) == said


NEW = [batch(20 + n, 10 * n, **T) for n in range(3)]
BEGUN = [committed(5, 100), end(40, 30), fetch(41, 30)]


def test_a_group_that_begins_at_the_end_of_a_new_partition_never_got_what_was_written_before() -> None:
    assert skipped(batches=NEW, positions=BEGUN) == [
        "Group g never got 30 messages of topic t, partition 1: it had no offset there, and began at 30, the end, "
        "though they had been written while it read the topic."
    ]


@pytest.mark.parametrize(
    ("why", "positions", "exchanges"),
    [
        ("the group is new", [committed(30, 100), *BEGUN[1:]], []),
        ("it had an offset there", [*BEGUN, committed(6, 30) | T], []),
        ("it began at the start", [*BEGUN[:2], fetch(41, 0)], []),
        ("a member had read before", [*BEGUN, fetch(15, 0, "other")], [joined(0, "other")]),
        ("the client is in two groups", BEGUN, [joined(1) | {"group": "h"}]),
        ("nobody asked for the end", [BEGUN[0], BEGUN[2]], []),
    ],
)
def test_a_group_may_begin_at_the_end(why: str, positions: Rows, exchanges: Rows) -> None:
    assert not skipped(batches=NEW, positions=positions, exchanges=exchanges), why


STOOD = [committed(5, 100) | T, fetch(30, 1000)]


def test_a_group_that_a_tool_put_behind_messages_never_got_them() -> None:
    assert skipped(positions=STOOD, events=[set_to(20, 1000)]) == [
        "Group g never got 900 messages of topic t, partition 1: admin on 10.0.0.2 set it forward from offset 100 to "
        "1000."
    ]


@pytest.mark.parametrize(
    ("why", "more", "given"),
    [
        ("it was put back", {"events": [set_to(20, 50)]}, STOOD),
        ("it was refused", {"events": [set_to(20, 1000, 25)]}, STOOD),
        ("members read on where they were", {"events": [set_to(20, 1000)]}, [STOOD[0], fetch(30, 100)]),
        ("members had read up to there", {"events": [set_to(20, 1000)]}, [*STOOD, fetch(15, 990)]),
        ("members were given it", {"events": [set_to(20, 110)], "batches": [batch(15, 100, "consume", **T)]},
            [STOOD[0], fetch(30, 110)]),
        ("nobody read on", {"events": [set_to(20, 1000)]}, STOOD[:1]),
    ],
)  # fmt: skip
def test_an_offset_that_was_set_passes_over_nothing(why: str, more: dict[str, Any], given: Rows) -> None:
    assert not skipped(positions=given, **more), why


ASKED = joined(40) | {"api": "OffsetFetch", "kind": "call", "status": "ok", "topics": ["t"], "exchange_id": "asked"}
CAME_BACK = [committed(5, 100) | T, fetch(6, 100), end(41, 900), fetch(42, 900)]


def test_a_group_whose_offset_is_gone_never_got_what_was_written_until_it_came_back() -> None:
    assert skipped(positions=CAME_BACK, exchanges=[ASKED]) == [
        "Group g never got 800 messages of topic t, partition 1: it had come to 100, the broker had no offset for it "
        "any more when it came back, and it began at 900, the end."
    ]
    got = batch(6, 100, "consume", **T)
    assert "never got 790 messages" in skipped(positions=CAME_BACK, exchanges=[ASKED], batches=[got])[0]


@pytest.mark.parametrize(
    ("why", "positions", "exchanges"),
    [
        ("its offset was there", [*CAME_BACK, committed(40, 100) | T | {"exchange_id": "asked"}], [ASKED]),
        ("it asked for no offset, but went to the end", CAME_BACK, []),
        ("it began where it had stood", [*CAME_BACK[:2], end(41, 100), fetch(42, 100)], [ASKED]),
        ("it began at the start", [*CAME_BACK[:3], fetch(42, 0)], [ASKED]),
        ("it had never committed", CAME_BACK[1:], [ASKED]),
        ("it read on first, and asked for another partition", [*CAME_BACK, fetch(40.5, 100)], [ASKED]),
        ("the answer was an error", CAME_BACK, [ASKED | {"status": "error"}]),
    ],
)
def test_a_group_that_comes_back_need_not_have_lost_its_offset(why: str, positions: Rows, exchanges: Rows) -> None:
    assert not skipped(positions=positions, exchanges=exchanges), why
