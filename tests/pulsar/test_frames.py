"""Where frames begin and end, also after bytes were lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.pulsar.commands import COMMANDS, EITHER
from dissectors.pulsar.frames import judge, measure
from dissectors.pulsar.loss.resync import search
from dissectors.session.inbox import INVALID, MORE
from dissectors.session.search import SearchBudget
from tests.feeding import CLIENT, SERVER
from tests.pulsar import wire

LIMIT = 5 * 1024 * 1024 + 10 * 1024
ENTRY = wire.entry(wire.metadata(), b"payload")


def frame_of(code: int) -> bytes:
    return wire.carrying(code, [(1, 1)], ENTRY) if code in (6, 9) else wire.simple(code, (1, 1))


@pytest.mark.parametrize("code", sorted(COMMANDS))
def test_the_header_of_every_command_proves_a_frame_of_its_sender(code: int) -> None:
    frame = frame_of(code)
    assert measure(frame, 0, len(frame), LIMIT) == len(frame)
    for direction in (CLIENT, SERVER):
        may = COMMANDS[code].sender in (EITHER, 1 << direction)
        assert judge(frame, 0, len(frame), LIMIT, direction) == (len(frame) if may else INVALID)


@given(st.integers(0, 9))
def test_a_header_that_is_not_all_there_needs_more(have: int) -> None:
    frame = wire.flow(1000)
    assert measure(frame, 0, have, LIMIT) == MORE
    assert judge(frame, 0, have, LIMIT, CLIENT) == MORE


def test_a_command_of_an_unknown_type_is_a_frame() -> None:
    frame = wire.simple(99, (1, 5))
    assert measure(frame, 0, len(frame), LIMIT) == len(frame)


@pytest.mark.parametrize(
    "damage",
    [
        wire.u32(LIMIT + 1) + wire.flow(1)[4:],  # larger than a frame may be
        wire.u32(3) + wire.flow(1)[4:],  # smaller than what it holds
        wire.flow(1)[:4] + wire.u32(1000) + wire.flow(1)[8:],  # a command larger than its frame
        wire.flow(1)[:8] + b"\x10" + wire.flow(1)[9:],  # no type in front
    ],
)
def test_sizes_that_contradict_each_other_are_no_frame(damage: bytes) -> None:
    assert measure(damage, 0, len(damage), LIMIT) == INVALID


commands = st.sampled_from([wire.flow(500), wire.simple(wire.PING), wire.send(3, ENTRY), wire.connect()])
noise = st.binary(max_size=200)


@given(noise, commands)
def test_a_search_finds_the_frame_behind_noise(before: bytes, frame: bytes) -> None:
    data = before + frame
    at, found = search(data, 0, len(data), LIMIT, CLIENT, True, SearchBudget())
    assert found
    assert at == len(before) or judge(data, at, len(data), LIMIT, CLIENT) > 0


@given(noise, commands, st.lists(st.integers(0, 300), max_size=5))
def test_a_search_does_not_depend_on_how_the_bytes_were_cut(before: bytes, frame: bytes, cuts: list[int]) -> None:
    data = before + frame
    want = search(data, 0, len(data), LIMIT, CLIENT, True, SearchBudget())
    at, found = 0, False
    for end in sorted({min(cut, len(data)) for cut in cuts} | {len(data)}):
        at, found = search(data, at, end, LIMIT, CLIENT, end == len(data), SearchBudget())
        if found:
            break
    assert (at, found) == want


@given(st.binary(max_size=400))
def test_a_search_never_goes_past_its_end(data: bytes) -> None:
    for final in (False, True):
        at, found = search(data, 0, len(data), LIMIT, SERVER, final, SearchBudget())
        assert 0 <= at <= len(data)
        assert found or not final or at == len(data)
