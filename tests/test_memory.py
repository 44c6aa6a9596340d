"""Memory does not grow with the capture, whatever is in it. Each run is measured in a process of its own.

How much a process takes depends on the machine too: on its allocators, its page size, how many cores it has. So bounds
are those that the product states (`Limits.memory_bytes`), and growth is compared with what was added to the capture.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from dissectors.limits import MIB, Limits
from tests.benchmarks import captures

PEAK = """
import re, sys
from pathlib import Path
from dissectors.options import Options
from dissectors.run import Run
rows = sum(batch.num_rows for _, batch in Run(sys.argv[1:], Options()).records())
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss knows the parent's, too
print(rows, int(peak) * 1024)
"""


def peak(*paths: Path) -> tuple[int, int]:
    """(rows of the default tables, peak memory in bytes)."""
    done = subprocess.run([sys.executable, "-c", PEAK, *map(str, paths)], capture_output=True, text=True, check=True)
    rows, size = done.stdout.split()
    return int(rows), int(size)


@pytest.mark.parametrize(("records", "value_bytes"), [(1, 60), (100, 1000)])
def test_a_capture_three_times_as_large_needs_no_more_memory(records: int, value_bytes: int, tmp_path: Path) -> None:
    small, large = tmp_path / "small.pcap", tmp_path / "large.pcap"
    captures.produce(small, 40 * MIB, records=records, value_bytes=value_bytes)
    captures.produce(large, 120 * MIB, records=records, value_bytes=value_bytes)
    rows, least = peak(small)
    more_rows, most = peak(large)
    assert more_rows > 2.5 * rows
    assert most - least < 60 * MIB  # of 80 MiB that came in addition; its rows alone would be three times that
    assert most < Limits().memory_bytes // 2  # nothing stays open: this is the block in work, and its rows
