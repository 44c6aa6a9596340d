"""Memory does not grow with the capture. Each run is measured in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.benchmarks import captures

PEAK = """
import re, sys
from pathlib import Path
from dissectors.options import Options
from dissectors.run import Run
rows = sum(batch.num_rows for _, batch in Run(sys.argv[1:], Options()).records())
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss knows the parent's, too
print(rows, int(peak) // 1024)
"""


def peak(*paths: Path) -> tuple[int, int]:
    """(rows of the default tables, peak memory in MiB)."""
    done = subprocess.run([sys.executable, "-c", PEAK, *map(str, paths)], capture_output=True, text=True, check=True)
    rows, size = done.stdout.split()
    return int(rows), int(size)


@pytest.mark.parametrize(("records", "value_bytes"), [(1, 60), (100, 1000)])
def test_a_capture_four_times_as_large_needs_no_more_memory(records: int, value_bytes: int, tmp_path: Path) -> None:
    small, large = tmp_path / "small.pcap", tmp_path / "large.pcap"
    captures.produce(small, 20_000_000, records=records, value_bytes=value_bytes)
    captures.produce(large, 80_000_000, records=records, value_bytes=value_bytes)
    rows, least = peak(small)
    more_rows, most = peak(large)
    assert more_rows > 3 * rows
    assert most < 1.15 * least
    assert most < 300
