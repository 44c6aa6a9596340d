"""What held a connection back, as rows of the record table `stalls`."""

from pathlib import Path

import dissectors
from tests.timed import MS, Timed, answer, request
from tests.wires import CLIENT, SERVER


def test_a_row_has_the_sizes_and_the_silence_before_the_bytes_that_nobody_acknowledged(tmp_path: Path) -> None:
    small, large = request(1), request(2, 500)
    timed = Timed().send(1, CLIENT, small).send(2, SERVER, answer(1)).ack(3, CLIENT)
    asked = timed.next[CLIENT]
    timed.send(5003, CLIENT, large).send(5220, CLIENT, large, at=asked).send(5640, CLIENT, large, at=asked)
    table = dissectors.dissect([timed.write(tmp_path / "t.pcap")], tables=["stalls"])["stalls"]
    (row,) = (row for row in table.to_pylist() if row["kind"] == "undelivered")
    assert (row["direction"], row["stream_offset"], row["duration_ns"]) == ("client", asked, 637 * MS)
    assert (row["segment_bytes"], row["delivered_segment_bytes"]) == (len(large), len(small))
    assert row["idle_ns"] == 5000 * MS
    assert not row["spurious"]
