"""Instructions of `dissect` (five tables, one core), which other programs on the machine do not disturb. `make cost`.

    python -m tests.benchmarks.instructions [KIND …]

The kinds are those of speed.py. Each capture is read under valgrind's callgrind, and one with three times as much; the
difference, divided by the exchanges that the larger one has more (of `big`, by its megabytes), leaves out what is done
once. That is shown as `start`, of the kind `tiny`. The rows of earlier runs are not used (`--no-cache`).
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import dissectors
from tests.benchmarks import speed

SIZES = {"tiny": 300_000, "big": 20_000_000, "kafka": 4_000_000, "pulsar": 4_000_000, "iggy": 4_000_000}  # bytes
TIMES = 3


def main() -> None:
    """Count, and print a line a kind."""
    if shutil.which("valgrind") is None:
        sys.exit("valgrind is not installed: instructions cannot be counted")
    with tempfile.TemporaryDirectory() as folder:
        small, large = Path(folder, "small.pcap"), Path(folder, "large.pcap")
        for kind in sys.argv[1:] or SIZES:
            speed.MAKE[kind](small, SIZES[kind])
            speed.MAKE[kind](large, TIMES * SIZES[kind])
            counts = [instructions(path, Path(folder, "out")) for path in (small, large)]
            units = [megabytes(path) if kind == "big" else exchanges(path) for path in (small, large)]
            each = (counts[1] - counts[0]) / (units[1] - units[0])
            unit = "a megabyte" if kind == "big" else "an exchange"
            line = f"{kind:<6} {each / 1000:8,.1f} thousand instructions {unit}"
            if kind == "tiny":
                line += f"   start {(counts[0] - each * units[0]) / 1e6:,.0f} million"
            print(line, flush=True)


def instructions(path: Path, out: Path) -> int:
    """How many `dissect` takes for a capture."""
    tool = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", sys.executable]
    fixed = os.environ | {"PYTHONHASHSEED": "0"}
    done = subprocess.run([*tool, *speed.ours(path, out)], env=fixed, capture_output=True, text=True, check=False)
    counted = re.search(r"Collected : (\d+)", done.stderr)
    if done.returncode or counted is None:
        sys.exit(f"dissect fails under valgrind: {done.stderr.strip()[-200:]}")
    return int(counted[1])


def exchanges(path: Path) -> int:
    """How many are in a capture."""
    return dissectors.dissect([path], ["exchanges"])["exchanges"].num_rows


def megabytes(path: Path) -> float:
    """The size of a capture."""
    return path.stat().st_size / 1e6


if __name__ == "__main__":
    main()
