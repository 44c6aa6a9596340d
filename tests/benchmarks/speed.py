"""CPU time a frame of `dissect` (five tables, one core) beside `tshark -T fields`. `make bench` runs it.

    python -m tests.benchmarks.speed [KIND=MB …]

    big, tiny              made-up Kafka: batches of 100 KB, exchanges of 60 bytes
    kafka, pulsar, iggy    captures of real brokers from $BROKERSCOPE_CAPTURES, else samples/, again and again

The programs run in turns on the same file. The ratio is the median of those of the turns; it stands beside the lowest
and the highest. tshark prints its fields of Kafka, or of TCP where it does not know the protocol.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

import dissectors
from tests.benchmarks import captures

ROOT = Path(__file__).parents[2]
TURNS = 3
TABLES = ("exchanges", "batches", "errors", "connections", "findings")
KAFKA = ("frame.time_epoch", "tcp.stream", "kafka.api_key", "kafka.correlation_id", "kafka.error", "kafka.topic_name")
TCP = ("frame.time_epoch", "tcp.stream", "tcp.len")
SIZES = {"big": 100, "tiny": 20, "kafka": 30, "pulsar": 30, "iggy": 30}  # MB


def real(protocol: str, path: Path, size: int) -> None:
    """Captures of one protocol, again and again."""
    found = os.environ.get("BROKERSCOPE_CAPTURES")
    sources = Path(found, protocol).glob("*.pcap") if found else (ROOT / "samples").glob(f"{protocol}-*.pcap")
    captures.repeat(sorted(sources), path, size)


MAKE: dict[str, Callable[[Path, int], None]] = {
    "big": partial(captures.produce, records=100, value_bytes=1000),
    "tiny": partial(captures.produce, records=1, value_bytes=60),
    **{protocol: partial(real, protocol) for protocol in ("kafka", "pulsar", "iggy")},
}


def main() -> None:
    """Make each capture, run both programs on it in turns, print a line."""
    wanted = dict(argument.split("=") for argument in sys.argv[1:]) or SIZES
    if shutil.which("tshark") is None:
        print("tshark is not installed: only our own times are shown")
    with tempfile.TemporaryDirectory() as folder:
        path, out = Path(folder, "capture.pcap"), Path(folder, "out")
        path.write_bytes(captures.FILE_HEADER)
        start_up = min(timed(ours(path, out))[0] for _ in range(TURNS))
        print(f"start-up {start_up:.2f} s; in the times below, but for those of a frame")
        for kind, size in wanted.items():
            MAKE[kind](path, int(size) * 1_000_000)
            print(compare(kind, path, out, start_up), flush=True)


def compare(kind: str, path: Path, out: Path, start_up: float) -> str:
    """One line: CPU seconds, that of a frame, peak memory, and the same of tshark."""
    rivals = {"ours": ours(path, out)} | ({"tshark": theirs(kind, path)} if shutil.which("tshark") else {})
    turns = [{who: timed(command) for who, command in rivals.items()} for _ in range(TURNS)]
    frames = sum(dissectors.dissect([path], ["connections"])["connections"]["frames"].to_pylist())
    seconds, memory = min(turn["ours"] for turn in turns)
    each = (seconds - start_up) / frames * 1e6
    line = f"{kind:<6} {seconds:6.2f} s  {each:5.1f} us a frame  {memory:4.0f} MB"
    if "tshark" in rivals:
        ratios = sorted(turn["tshark"][0] / turn["ours"][0] for turn in turns)
        took, memory = min(turn["tshark"] for turn in turns)
        line += (
            f"   tshark {took:6.2f} s {memory:4.0f} MB  {median(ratios):5.1f} x ({ratios[0]:.1f} to {ratios[-1]:.1f})"
        )
    return line


def ours(path: Path, out: Path) -> list[str]:
    tables = [word for table in TABLES for word in ("--table", table)]
    command = str(Path(sys.executable).with_name("brokerscope"))
    """`dissect` itself: rows of the run before would be read from the cache."""
    options = ["--format", "parquet", "-o", str(out), "--quiet", "--no-cache", "--jobs", "1"]
    return [command, "dissect", str(path), *tables, *options]


def theirs(kind: str, path: Path) -> list[str]:
    shown, fields = ("tcp.len>0", TCP) if kind in ("pulsar", "iggy") else ("kafka", KAFKA)
    return [
        "tshark",
        "-r",
        str(path),
        "-Y",
        shown,
        "-T",
        "fields",
        *(word for field in fields for word in ("-e", field)),
    ]


def timed(command: list[str]) -> tuple[float, float]:
    """(CPU seconds, peak MB) of a command on one core."""
    pinned = ["taskset", "-c", "0", *command] if shutil.which("taskset") else command
    process = subprocess.Popen(pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
