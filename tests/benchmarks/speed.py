"""How fast `dissect` is beside `tshark -T fields`: the same capture, one core each, in turns. `make bench` runs it.

Optional arguments: sizes in MB of the captures: big batches, tiny exchanges, mix.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import captures

ROOT = Path(__file__).parents[2]
FIELDS = ("frame.time_epoch", "tcp.stream", "kafka.api_key", "kafka.correlation_id", "kafka.error", "kafka.topic_name")
TURNS = 3


def main() -> None:
    """Make the captures, time both programs on each, print a line a capture."""
    big, tiny, mix = (int(a) for a in sys.argv[1:4]) if len(sys.argv) > 3 else (200, 20, 60)
    if shutil.which("tshark") is None:
        print("tshark is not installed: only our own times are shown")
    with tempfile.TemporaryDirectory() as folder:
        made = {name: Path(folder, f"{name}.pcap") for name in ("big", "tiny", "mix")}
        captures.produce(made["big"], big * 1_000_000, records=100, value_bytes=1000)
        captures.produce(made["tiny"], tiny * 1_000_000, records=1, value_bytes=60)
        captures.repeat(sorted((ROOT / "samples").glob("kafka-*.pcap")), made["mix"], mix * 1_000_000)
        for name, path in made.items():
            print(compare(name, path, Path(folder, "out.parquet")), flush=True)


def compare(name: str, path: Path, out: Path) -> str:
    """One line: ratio, seconds, peak memory, MB/s."""
    fields = [argument for field in FIELDS for argument in ("-e", field)]
    theirs = ["tshark", "-r", str(path), "-Y", "kafka", "-T", "fields", *fields]
    command = str(Path(sys.executable).with_name("brokerscope"))
    ours = [command, "dissect", str(path), "--table", "exchanges", "--format", "parquet", "-o", str(out), "--quiet"]
    rivals = {"ours": ours} | ({"theirs": theirs} if shutil.which("tshark") else {})
    best = {who: (float("inf"), 0.0) for who in rivals}
    for _ in range(TURNS):
        for who, arguments in rivals.items():
            best[who] = min(best[who], timed(arguments))
    seconds, memory = best["ours"]
    line = f"{name:<5} {seconds:6.2f} s  {path.stat().st_size / seconds / 1e6:6.0f} MB/s  {memory:5.0f} MB"
    if "theirs" in best:
        line += (
            f"   tshark {best['theirs'][0]:6.2f} s  {best['theirs'][1]:5.0f} MB   {best['theirs'][0] / seconds:5.1f} x"
        )
    return line


def timed(command: list[str], *, cpu: bool = False) -> tuple[float, float]:
    """(seconds, peak MB) of a command on one core; of CPU time, if asked for."""
    pinned = ["taskset", "-c", "0", *command] if shutil.which("taskset") else command
    begin = time.monotonic()
    process = subprocess.Popen(pinned, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)} ended with {os.waitstatus_to_exitcode(status)}")
    seconds = used.ru_utime + used.ru_stime if cpu else time.monotonic() - begin
    return seconds, used.ru_maxrss / 1024


if __name__ == "__main__":
    main()
