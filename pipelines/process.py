"""What a process of ours sets before it loads anything else. It concerns the whole process, so it is for commands and
for Spark's workers, not for a program that uses these packages.

- **Freed memory is used again.** Blocks of packets and their columns are some megabytes each, and made and freed all
  the time. By default glibc gives such memory back to the system at once and gets it again for the next block, page by
  page, each cleared first: for large batches that was a sixth of the CPU time. Arrow takes its memory from there too,
  where free memory is kept once, not twice.
- **One thread for linear algebra**, which nothing here does: numpy's library starts one for each core, and they spin
  for a tenth of a second.
- **Modules are not searched for garbage** while they are loaded.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys

ENVIRONMENT = {"ARROW_DEFAULT_MEMORY_POOL": "system", "OPENBLAS_NUM_THREADS": "1"}  # where nobody says otherwise
COLLECT_EVERY = 100_000  # objects
# options of glibc's mallopt, by their numbers in its malloc.h, and their values
MALLOPT = (
    (-1, 64 << 20),  # M_TRIM_THRESHOLD: free bytes at the end of the heap, beyond which they go back to the system
    (-3, 32 << 20),  # M_MMAP_THRESHOLD: what is larger is mapped by itself, and goes back when it is freed; its maximum
)


def prepare() -> None:
    """Set all this in this process, and so in those forked from it."""
    for name, value in ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(COLLECT_EVERY, *gc.get_threshold()[1:])
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Use it again rather than give it back. Nothing happens where the C library is another one than glibc."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if set_option is not None:
        for option, value in MALLOPT:
            set_option(option, value)
