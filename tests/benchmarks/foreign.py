"""How much foreign and hostile bytes cost beside real traffic: CPU time a byte, never more than three times as much.

Random bytes, zeros, text and almost-heads of each protocol, in mid-stream on ports of ours and of others, from either
side, whole and with holes. `python -m tests.benchmarks.foreign [MB [KIND …]]` prints the table, or of some kinds of
bytes, and exits 1 where a row is over.
"""

from __future__ import annotations

import os
import random
import struct
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from dissectors.options import Options
from dissectors.run import Run
from tests.benchmarks import captures
from tests.benchmarks.speed import ROOT

TIMES = 3
TURNS = 3
PORTS = {"kafka": 9092, "pulsar": 6650, "iggy": 8090, "other": 11211}
EVERY = 40  # of so many segments one is a hole


def kinds(size: int) -> Iterator[tuple[str, bytes]]:
    """What the bytes are."""
    yield "random", random.Random(9).randbytes(size)
    yield "zeros", bytes(size)
    yield "ones", b"\xff" * size
    yield "text", repeated(b"GET key:7 flags VALUE abcdefghijklmnop 0 32\r\n", size)
    yield "kafka heads", repeated(struct.pack(">ihhih", 1 << 20, 0, 9, 7, 8) + b"producer", size)
    yield "kafka almost", repeated(struct.pack(">ihhih", 60, 1, 11, 7, 9) + b"consumer\xff" + bytes(20), size)
    yield "pulsar almost", repeated(struct.pack(">IIBB", 40, 36, 8, 6) + b"\x32\x10" + bytes(16), size)
    yield "iggy almost", repeated(struct.pack("<II", 12, 100), size)
    yield "kafka counted", counted(">ihhiih", (60, 1, 11), (-1, 0), bytes(40), size)
    yield "iggy counted", counted("<IIII", (20, 100), (1,), bytes(8), size)
    yield "varints", b"\x80" * size


def counted(form: str, before: tuple[int, ...], after: tuple[int, ...], rest: bytes, size: int) -> bytes:
    """Heads with a number that grows, so that no two are equal."""
    unit = struct.calcsize(form) + len(rest)
    return b"".join(struct.pack(form, *before, i, *after) + rest for i in range(size // unit))


def repeated(unit: bytes, size: int) -> bytes:
    return (unit * (size // len(unit) + 1))[:size]


def write(path: Path, data: bytes, port: int, *, up: bool, holes: bool) -> None:
    """One connection in mid-stream that carries the bytes in one direction."""
    with path.open("wb") as file:
        file.write(captures.FILE_HEADER)
        wire = captures.Wire(file, 50_000, port, handshake=False)
        for number, at in enumerate(range(0, len(data), captures.SEGMENT)):
            piece = data[at : at + captures.SEGMENT]
            if holes and number % EVERY == EVERY - 1:
                wire.lose(0 if up else 1, len(piece))
            else:
                wire.send(0 if up else 1, piece)


def cost(path: Path, *, enough: float = 0.0) -> float:
    """CPU seconds of a dissection of connections and findings: the least of some runs, or the first within `enough`.

    Each runs in a child process, which has everything that is imported and compiled on first use.
    """
    least = float("inf")
    for _ in range(TURNS):
        process = os.fork()
        if not process:
            dissect(path)
            os._exit(0)
        _, status, used = os.wait4(process, 0)
        if status:
            sys.exit(f"{path} ended with {os.waitstatus_to_exitcode(status)}")
        least = min(least, used.ru_utime + used.ru_stime)
        if least <= enough:
            break
    return least


def dissect(path: Path) -> None:
    for _ in Run([str(path)], Options(tables=("connections", "findings"))).records():
        pass


def main() -> int:
    """Print the table."""
    size = int(float(sys.argv[1]) * 1_000_000) if len(sys.argv) > 1 else 4_000_000
    wanted = sys.argv[2:]
    samples = sorted((ROOT / "samples").glob("*.pcap"))
    over = 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "x.pcap")
        for sample in samples:
            dissect(sample)
        captures.repeat([sample for sample in samples if sample.name.startswith("kafka-")], path, size)
        real = cost(path)
        print(f"{'real traffic':<38} {real:6.2f} s")
        for kind, data in kinds(size):
            if wanted and kind not in wanted:
                continue
            for name, port in PORTS.items():
                for up in (True, False):
                    for holes in (False, True):
                        write(path, data, port, up=up, holes=holes)
                        took = cost(path, enough=TIMES * real)
                        where = f"{kind:<15} {name:<7} {'client' if up else 'server'} {'holes' if holes else '     '}"
                        mark = " OVER" if took > TIMES * real else ""
                        over += bool(mark)
                        print(f"{where} {took:6.2f} s {took / real:5.1f} x{mark}", flush=True)
    return 1 if over else 0


if __name__ == "__main__":
    sys.exit(main())
