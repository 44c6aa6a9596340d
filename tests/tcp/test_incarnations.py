"""Connections between the same endpoints are numbered, however many endpoints there are."""

from dissectors.tcp.tracker import Incarnations


def ends(port: int) -> tuple[int, int, int, int, int, int]:
    return 0, 0x0A000001, port, 0, 0x0A000002, 9092


def test_connections_between_the_same_endpoints_are_counted() -> None:
    numbers = Incarnations(limit=10)
    for expected in range(3):
        assert numbers.next(ends(1)) == expected
        numbers.end(ends(1), expected)
    assert numbers.next(ends(2)) == 0


def test_no_number_comes_twice_where_endpoints_were_forgotten() -> None:
    numbers = Incarnations(limit=5)
    seen: set[tuple[int, int]] = set()
    for turn in range(100):
        port = turn % 23  # more than are remembered
        number = numbers.next(ends(port))
        assert (port, number) not in seen
        seen.add((port, number))
        numbers.end(ends(port), number)
