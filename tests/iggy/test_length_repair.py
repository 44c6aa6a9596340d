"""A bit that flips in a message's length is a wrong checksum, not a frame without sense."""

import gc
import struct

import pytest

from dissectors.checksum import XXH3, compute
from dissectors.iggy import batches
from dissectors.iggy.verify import suspects, verify

TEXTS = [b"first message", b"second, a longer message", b"third"]


def message(number: int, payload: bytes, headers: bytes = b"") -> bytes:
    """Layout of 0.6: 56 bytes of header."""
    body = struct.pack("<QQQQQII", number, 0, number, 1, 2, len(headers), len(payload)) + payload + headers
    return struct.pack("<Q", compute(XXH3, body)) + body


RUN = b"".join(message(i, text) for i, text in enumerate(TEXTS))
STARTS = [0, len(message(0, TEXTS[0])), len(RUN) - len(message(2, TEXTS[2]))]


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("at", range(48, 56))
@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_every_length_is_detected(which: int, at: int, bit: int) -> None:
    data = bytearray(RUN)
    data[STARTS[which] + at] ^= 1 << bit
    run = batches.read("poll_56_xxh3", bytes(data), 0, len(data), len(data), 3)
    assert [m.start for m in run.messages] == STARTS
    verdict = verify(run, run.units[0], bytes(data), len(data))
    assert (verdict.verdict, verdict.bad, verdict.wrong) == ("bad", which, 1)


def test_a_run_that_no_length_mends_stays_malformed() -> None:
    data = bytearray(RUN)
    data[STARTS[1] + 52] ^= 0xFF
    run = batches.read("poll_56_xxh3", bytes(data), 0, len(data), len(data), 3)
    assert run.misfit.found
    assert run.misfit.text().startswith("payload of ")


def test_a_failure_lets_go_of_what_it_passed_through() -> None:
    data = bytearray(RUN)
    data[STARTS[1] + 52] ^= 0xFF
    gc.collect()
    batches.read("poll_56_xxh3", bytes(data), 0, len(data), len(data), 3)
    assert gc.collect() == 0


def test_a_missing_end_is_not_mended() -> None:
    run = batches.read("poll_56_xxh3", RUN, 0, len(RUN), STARTS[2], 3)
    assert len(run.messages) == 2


def frame(number: int, payload: bytes) -> bytes:
    """A message of a VSR batch."""
    body = struct.pack("<QQIIIIQ", number, 0, number, 0, 0, len(payload), 0) + payload
    return struct.pack("<Q", compute(XXH3, body)) + body


FRAMES = [frame(i, text) for i, text in enumerate(TEXTS)]


def vsr_batch() -> bytes:
    frames = b"".join(FRAMES)
    head = struct.pack("<QQQQQ", 1, 100, 5, 6, 256 + len(frames))
    count = struct.pack("<I", len(FRAMES))
    sums = b"".join(f[:8] for f in FRAMES)
    return head + struct.pack("<Q", compute(XXH3, head + count + sums)) + count + bytes(204) + frames


@pytest.mark.parametrize("at", [*range(32, 40), *range(48, 52), 256 + 32, 256 + 36, 256 + 37])
@pytest.mark.parametrize("bit", range(8))
def test_every_bit_of_a_vsr_batchs_length_and_count_is_detected(at: int, bit: int) -> None:
    data = bytearray(vsr_batch())
    whole = batches.read("batch", bytes(data), 0, len(data), len(data), 3)
    assert verify(whole, whole.units[0], bytes(data), len(data)).verdict == "ok"
    data[at] ^= 1 << bit
    run = batches.read("batch", bytes(data), 0, len(data), len(data), 3)
    (unit,) = run.units
    assert [(m.start, m.end) for m in run.of(unit)] == [(m.start, m.end) for m in whole.messages]
    assert verify(run, unit, bytes(data), len(data)).verdict == "bad"
    found = list(suspects(run, unit, bytes(data)))
    assert len(found) == 1
