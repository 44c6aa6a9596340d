"""Answers whose requests were not captured wait for the end of their connection."""

import pytest

from dissectors.kafka.loss.orphans import KafkaOrphans
from dissectors.session.frame import Frame
from dissectors.tcp.chunk import SERVER

AROUND, SIZE = b"before", 40


def answer(number: int) -> Frame:
    """An answer within a larger buffer, of which the last bytes were not captured."""
    data = AROUND + number.to_bytes(SIZE, "big") + b"behind"
    start, end = len(AROUND), len(AROUND) + SIZE
    first_ns, last_ns = 10**18 + number * 1_000, 10**18 + number * 1_000 + 5
    return Frame(SERVER, data, start, end, SIZE, end - number % 2, number * SIZE, number, first_ns, last_ns, number)


@pytest.mark.parametrize("count", [0, 1, 8, 13, 64])
def test_answers_come_back_as_they_were_oldest_first(count: int) -> None:
    orphans = KafkaOrphans()
    for number in range(count):
        assert orphans.hold(answer(number), correlation_id=number, early=number % 3 == 0)
    out = list(orphans.release())
    assert [(each.correlation_id, each.early) for each in out] == [(n, n % 3 == 0) for n in range(count)]
    for number, (frame, _, _) in enumerate(out):
        was = answer(number)
        assert frame.data == was.data[was.start : was.end]
        assert (frame.start, frame.end, frame.complete) == (0, SIZE, was.complete)
        assert frame.facts() == was.facts()
    assert not list(orphans.release())


def test_no_more_are_kept_than_there_is_room_for() -> None:
    orphans = KafkaOrphans()
    kept = [orphans.hold(answer(number), number, early=False) for number in range(100)]
    assert kept == [True] * 64 + [False] * 36
    assert len(list(orphans.release())) == 64
    assert orphans.hold(answer(1), 1, early=False)
