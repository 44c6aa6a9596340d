"""Mutate and look, as long as one likes.

usage: python -m tests.fuzz [--seconds N] [--count N] [--seed S] [--case N] [--keep FOLDER]

One seed a day: the same on every machine, another one tomorrow. FUZZ_SEED names another; FUZZ_SECONDS says how long.
What fails is printed with its seed and case number, and kept in a folder; with --case it is run alone, and its
traceback shown. Make it small with tests/fuzz/shrink.py and put it into tests/fuzz/captures: it is looked at for ever.
"""

import argparse
import datetime
import os
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from types import FrameType

from tests.fuzz import cases, check

HANGS = 120  # seconds of CPU after which a case is given up
REPORTED = 500  # cases between two lines that say how far it is
_ALWAYS_KEPT = "fuzz-failures"


class Hang(BaseException):
    """A case that does not end. No handler in the product takes it for an error of its own."""


def _hang(signum: int, frame: FrameType | None) -> None:
    raise Hang(f"no end after {HANGS} s of CPU")


def run(seed: int, number: int, folder: Path) -> tuple[cases.Case, check.Cost | None, str]:
    """(the case, what it cost, the traceback if it failed)."""
    case = cases.make(seed, number)
    path = folder / f"case{case.suffix}"
    path.write_bytes(case.data)
    signal.setitimer(signal.ITIMER_PROF, HANGS)
    try:
        return case, check.judge(path, case.seed.path, case.keylog, number), ""
    except (Exception, Hang):
        return case, None, traceback.format_exc()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def main(arguments: list[str] | None = None) -> int:
    """Run cases; 1 where one failed."""
    options = argparse.ArgumentParser(prog="python -m tests.fuzz")
    options.add_argument("--seconds", type=float, default=float(os.environ.get("FUZZ_SECONDS", 60)))
    options.add_argument("--count", type=int)
    options.add_argument(
        "--seed", type=int, default=int(os.environ.get("FUZZ_SEED") or f"{datetime.date.today():%Y%m%d}")
    )
    options.add_argument("--first", type=int, default=0, help="the first case's number")
    options.add_argument("--case", type=int, help="this case alone")
    options.add_argument("--keep", type=Path, default=Path(_ALWAYS_KEPT))
    given = options.parse_args(arguments)
    signal.signal(signal.SIGPROF, _hang)
    first = given.first if given.case is None else given.case
    count = given.count if given.case is None else 1
    end, number, failed = time.monotonic() + given.seconds, first, 0
    slowest, peak = (0.0, ""), 0
    print(f"seed {given.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        while number < first + count if count else time.monotonic() < end:
            case, cost, trouble = run(given.seed, number, Path(folder))
            if cost is None:
                failed += 1
                given.keep.mkdir(exist_ok=True)
                kept = given.keep / f"{given.seed}-{number}{case.suffix}"
                kept.write_bytes(case.data)
                print(f"\nFAILED seed {given.seed} case {number}: {case.name}; {kept}\n{trouble}", flush=True)
            else:
                slowest = max(slowest, (cost.seconds, f"case {number}"))
                peak = max(peak, cost.peak)
            number += 1
            if (number - first) % REPORTED == 0:
                print(f"{number - first} cases, {failed} failed", flush=True)
    print(
        f"{number - first} cases, {failed} failed; slowest {slowest[0]:.1f} s ({slowest[1]}), {peak >> 20} MiB at most",
        flush=True,
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
