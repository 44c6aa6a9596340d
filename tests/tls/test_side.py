"""One direction of a TLS connection: which of its plaintext was sent again."""

import time

from hypothesis import given
from hypothesis import strategies as st

from dissectors.tcp.chunk import Resent
from dissectors.tls.record import APPLICATION_DATA, HEADER, Pieces, Record
from dissectors.tls.side import TlsSide

RECORD = 20  # bytes, of which the header and a tag are no plaintext


def open_record(side: TlsSide, number: int) -> None:
    at = number * RECORD
    pieces = Pieces([at], [number], [number], [number])
    side.emit(Record(APPLICATION_DATA, bytes(RECORD), at, True), bytes(RECORD - HEADER - 8), pieces, HEADER)


def resent(side: TlsSide) -> list[Resent]:
    return sorted(event for event in side.collect() if isinstance(event, Resent))


@given(st.lists(st.builds(lambda a, n, o: Resent(a, a + n, o), st.integers(0, 150), st.integers(1, 60), st.integers())))
def test_what_is_sent_again_marks_the_same_records_whether_they_are_opened_before_or_later(notes: list[Resent]) -> None:
    before, behind = TlsSide(), TlsSide()
    for note in notes:
        before.note_resent(note)
    for number in range(10):
        open_record(before, number)
        open_record(behind, number)
    for note in notes:
        behind.note_resent(note)
    assert resent(before) == resent(behind)


def test_records_that_are_opened_after_all_of_them_were_sent_again_cost_no_more_each_where_they_are_many() -> None:
    def seconds(records: int) -> float:
        side, before = TlsSide(), time.process_time()
        for number in range(records):
            side.note_resent(Resent(number * RECORD, number * RECORD + RECORD, number))
        for number in range(records):
            open_record(side, number)
        assert len(resent(side)) == records
        return time.process_time() - before

    few, many = (min(seconds(records) for _ in range(3)) for records in (500, 8000))
    assert many < 64 * few  # as many as 256 times as much, were all looked at for each
