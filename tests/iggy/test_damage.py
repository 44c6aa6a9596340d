"""Connections that begin before the capture or lack bytes: the rows do not depend on when frames are cut."""

from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from tests.feeding import CLIENT, SERVER, feed, in_any_order
from tests.iggy.eras import ERAS

Script = list[tuple[int, Any]]
POLLS = len(ERAS["iggy-0.7"])


def incomplete(script: Script, first: int, cut: tuple[int, int], lost: frozenset[int]) -> Script:
    """From a step on; of the first bytes of each side so many missing, and all bytes of the lost steps.

    cut: thousandths of the first bytes of the client and of the server.
    """
    script = script[first % len(script) :]
    for direction in (CLIENT, SERVER):
        for i, (side, data) in enumerate(script):
            if side == direction:
                script[i] = side, data[len(data) * cut[direction] // 1000 :]
                break
    return [(side, len(data) if i in lost else data) for i, (side, data) in enumerate(script) if data]


@settings(max_examples=200)
@given(
    era=st.sampled_from(sorted(ERAS)),
    first=st.integers(0, POLLS),
    cut=st.tuples(st.integers(0, 999), st.integers(0, 999)),
    lost=st.frozensets(st.integers(0, POLLS), max_size=4),
)
@example(era="iggy-0.7", first=0, cut=(0, 0), lost=frozenset({0, 4}))  # only later answers show the framing
@example(era="iggy-vsr-0.9", first=1, cut=(0, 900), lost=frozenset({3}))
def test_an_incomplete_connection_gives_the_same_rows_whenever_frames_are_cut(
    era: str, first: int, cut: tuple[int, int], lost: frozenset[int]
) -> None:
    script = incomplete(list(ERAS[era]), first, cut, lost)
    made = []
    for each in (True, False):
        sink, _ = feed(PROTOCOL, script, midstream=first > 0 or any(cut), advance_each=each)
        made.append(in_any_order(sink))
    assert made[0] == made[1]
