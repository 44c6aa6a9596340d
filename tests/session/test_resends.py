"""What was sent again is known exactly, however it overlaps, and marks the exchanges that it may have delayed."""

import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dissectors
from dissectors.limits import Limits
from dissectors.session.resends import STRETCHES, ResentStretches
from dissectors.tcp.chunk import CLIENT
from tests.benchmarks.captures import FILE_HEADER, SEGMENT, Wire
from tests.kafka.wire import batch, produce, record
from tests.lossy import segments
from tests.pipelines import cutting

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*.pcap"))
OFFSETS = st.integers(0, 40)
REPEATS = st.lists(st.tuples(OFFSETS, st.integers(1, 12), st.integers(0, 30)))


@given(REPEATS, OFFSETS, st.integers(1, 12), st.integers(0, 30))
def test_a_byte_was_repeated_when_one_of_the_repetitions_by_then_covers_it(
    repeats: list[tuple[int, int, int]], start: int, size: int, order: int
) -> None:
    resent = ResentStretches()
    for at, length, when in repeats:
        resent.add(at, at + length, when)
    want = any(at < start + size and at + length > start and when <= order for at, length, when in repeats)
    assert resent.within(start, start + size, order) == want


def test_of_very_many_stretches_the_last_of_the_stream_are_kept() -> None:
    resent = ResentStretches()
    for i in range(3 * STRETCHES):
        resent.add(2 * i, 2 * i + 1, i)
    assert all(resent.within(2 * i, 2 * i + 1, i) for i in range(3 * STRETCHES))
    resent.shorten()
    known = [resent.within(2 * i, 2 * i + 1, i) for i in range(3 * STRETCHES)]
    assert known == [False] * (2 * STRETCHES) + [True] * STRETCHES


def calls_of_one_packet(path: Path, side: str) -> dict[str, int]:
    """The calls of which the request, or the response, is all that a packet carries: id, and index of the packet."""
    carried = segments(path)
    found = {}
    for row in dissectors.dissect([path], ["exchanges"])["exchanges"].to_pylist():
        if row["kind"] == "call" and not row["retransmitted"]:
            index = [row["request_packet"] - 1, row["response_packet"] - 1]
            sizes = [carried[i].size for i in index if carried[i]]  # type: ignore[union-attr]
            if sizes == [row["request_bytes"], row["response_bytes"]]:
                found[row["exchange_id"]] = index[side == "response"]
    return found


def send_again(path: Path, to: Path, requests: dict[int, int]) -> None:
    """Write a capture in which packets (keys) are sent again, each at once behind another (values)."""
    head, records = cutting.read(path)
    link = {1: 14, 113: 16, 276: 20, 0: 4, 101: 0}[int.from_bytes(head[20:24], "little") & 0xFFFF]
    behind: dict[int, list[bytes]] = {}
    for n, (packet, other) in enumerate(requests.items()):
        copy = bytearray(records[packet])
        copy[:8] = records[other][:8]
        struct.pack_into(">H", copy, 16 + link + 4, 0x7001 + n)  # the IP id: it is no packet captured twice
        behind.setdefault(other, []).append(bytes(copy))
    data = [record + b"".join(behind.get(i, ())) for i, record in enumerate(records)]
    to.write_bytes(head + b"".join(data))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
@pytest.mark.parametrize("block_bytes", [700, 1 << 20])
def test_a_request_sent_again_before_its_answer_marks_its_exchange_and_no_other(
    path: Path, block_bytes: int, tmp_path: Path
) -> None:
    requests, responses = (calls_of_one_packet(path, side) for side in ("request", "response"))
    some = list(requests)[::3]
    assert some
    again = {requests[i]: requests[i] for i in some}

    def rows(path: Path) -> dict[str, dict[str, Any]]:
        options: dict[str, Any] = {"limits": Limits(block_bytes=block_bytes)}
        got = dissectors.dissect([path], ["exchanges"], **options)["exchanges"].to_pylist()
        return {row["exchange_id"]: row for row in got}

    def marked(path: Path) -> set[str]:
        return {id_ for id_, row in rows(path).items() if row["retransmitted"]}

    before = marked(path)
    send_again(path, tmp_path / "before.pcap", again)
    assert marked(tmp_path / "before.pcap") == before | set(some)
    send_again(path, tmp_path / "behind.pcap", {requests[i]: responses[i] for i in some})
    assert marked(tmp_path / "behind.pcap") == before
    other = ("retransmitted", "site", "request_packet", "response_packet", "request_file", "response_file")
    kept = [
        {id_: {k: v for k, v in row.items() if k not in other} for id_, row in rows(one).items()}
        for one in (path, tmp_path / "before.pcap")
    ]
    assert kept[0] == kept[1]


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_however_many_requests_are_sent_again_while_nothing_is_decoded_each_marks_its_exchange(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dissectors.session.resends.STRETCHES", 1)
    requests = calls_of_one_packet(path, "request")
    send_again(path, tmp_path / "again.pcap", {packet: packet for packet in requests.values()})
    rows = dissectors.dissect([tmp_path / "again.pcap"], ["exchanges"])["exchanges"].to_pylist()
    assert {row["exchange_id"] for row in rows if row["retransmitted"]} >= requests.keys()


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_a_request_sent_again_and_never_answered_says_so(path: Path, tmp_path: Path) -> None:
    requests = calls_of_one_packet(path, "request")
    head, _ = cutting.read(path)
    for id_ in list(requests)[::40]:
        last = requests[id_]
        whole, cut = tmp_path / "whole.pcap", tmp_path / "cut.pcap"
        send_again(path, whole, {last: last})
        cut.write_bytes(head + b"".join(cutting.read(whole)[1][: last + 2]))
        rows = dissectors.dissect([cut], ["exchanges"])["exchanges"].to_pylist()
        assert [(row["kind"], row["retransmitted"]) for row in rows if row["exchange_id"] == id_] == [
            ("unanswered", True)
        ]


def test_a_request_without_an_answer_is_marked_where_it_was_sent_again_before_it_was_whole(tmp_path: Path) -> None:
    request = produce(1, {("t", 0): batch([record(0, b"k", bytes(2 * SEGMENT))])}, acks=0)
    path, again = tmp_path / "whole.pcap", tmp_path / "again.pcap"
    with path.open("wb") as file:
        file.write(FILE_HEADER)
        wire = Wire(file, 40_000)
        for _ in range(3):
            wire.send(CLIENT, request)
    data = [i for i, carried in enumerate(segments(path)) if carried and carried.size]
    first, last = data[3], data[-1]  # of the second request, which is not whole; of the third, which is
    send_again(path, again, {first: first, last: last})
    rows = dissectors.dissect([again], ["exchanges"])["exchanges"].to_pylist()
    assert [(row["kind"], row["retransmitted"]) for row in rows] == [
        ("oneway", False),
        ("oneway", True),
        ("oneway", False),
    ]
