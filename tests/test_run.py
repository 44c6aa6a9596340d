"""A pass over captures: rows come while it reads."""

import os
import threading
from pathlib import Path

import pytest

import dissectors
from dissectors.capture.block import ACK, FIN, RST, SYN
from dissectors.options import Options
from dissectors.run import Run
from tests.benchmarks import captures
from tests.tcp.test_tracker import ConversationT
from tests.wires import CLIENT, SERVER, T0, Side, pcap, segment

SAMPLES = Path(__file__).parent.parent / "samples"


def test_the_first_rows_come_before_the_capture_is_read(tmp_path: Path) -> None:
    path = tmp_path / "tiny.pcap"
    captures.produce(path, 8_000_000, records=1, value_bytes=60)
    run = Run([str(path)], Options(tables=("exchanges",)))
    rows = run.records()
    next(rows)
    assert run.readers[0].position < 2_000_000
    assert sum(batch.num_rows for _, batch in rows) > 10_000


def test_a_handshake_during_which_the_clock_was_set_back_has_no_duration(tmp_path: Path) -> None:
    path = tmp_path / "handshake.pcap"
    packets = [
        segment(CLIENT, SERVER, 1000, 0, flags=SYN, time=T0 + 500_000_000),
        segment(SERVER, CLIENT, 9000, 1001, flags=SYN | ACK, time=T0 + 1_000_000),
        segment(CLIENT, SERVER, 1001, 9001, flags=ACK, time=T0 + 2_000_000),
    ]
    path.write_bytes(pcap(packets, nano=True))
    (connection,) = dissectors.dissect([str(path)], ["connections"])["connections"].to_pylist()
    assert (connection["handshake"], connection["rtt_ns"]) == ("full", None)


@pytest.mark.parametrize(("fins", "closed"), [((CLIENT, SERVER), "fin"), ((CLIENT,), "reset")])
def test_a_reset_behind_both_fins_ended_nothing(fins: tuple[Side, ...], closed: str, tmp_path: Path) -> None:
    conversation = ConversationT().send(CLIENT, b"abc")
    for side in fins:
        conversation.send(side, b"", ACK | FIN)
    path = tmp_path / "x.pcap"
    path.write_bytes(pcap(conversation.send(CLIENT, b"", RST).packets, nano=True))
    rows = dissectors.dissect([str(path)], tables=["connections"])["connections"]
    assert rows.column("closed").to_pylist() == [closed]


def test_rows_of_a_pipe_come_when_no_more_packets_do(tmp_path: Path) -> None:
    whole = SAMPLES / "kafka-codecs.pcap"
    data, pipe = whole.read_bytes(), tmp_path / "pipe.pcap"
    os.mkfifo(pipe)
    seen, ended = threading.Event(), threading.Event()

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(data[: len(data) // 2])
            assert seen.wait(60), "no row came while the pipe was open"
            file.write(data[len(data) // 2 :])
        ended.set()

    writer = threading.Thread(target=write)
    writer.start()
    early = late = 0
    for _, batch in Run([str(pipe)], Options(tables=("exchanges",))).records():
        early, late = (early, late + batch.num_rows) if ended.is_set() else (early + batch.num_rows, late)
        seen.set()
    writer.join()
    want = sum(batch.num_rows for _, batch in Run([str(whole)], Options(tables=("exchanges",))).records())
    assert early
    assert early + late == want


@pytest.mark.parametrize("cut", [4, 30])
def test_a_pipe_may_pause_inside_a_header(cut: int, tmp_path: Path) -> None:
    whole = SAMPLES / "kafka-refused.pcap"
    data, pipe = whole.read_bytes(), tmp_path / "pipe.pcap"
    os.mkfifo(pipe)

    def write() -> None:
        with pipe.open("wb", buffering=0) as file:
            file.write(data[:cut])
            threading.Event().wait(0.6)
            file.write(data[cut:])

    writer = threading.Thread(target=write)
    writer.start()
    run = Run([str(pipe)], Options(tables=("exchanges",)))
    rows = sum(batch.num_rows for _, batch in run.records())
    writer.join()
    assert not run.problems
    assert rows == sum(b.num_rows for _, b in Run([str(whole)], Options(tables=("exchanges",))).records())
