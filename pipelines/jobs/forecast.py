"""What a job would do with captures of which only names and sizes are known: `analyze --explain`.

The planner is the one that jobs use (`plan`); nothing of the captures is read. So what only their packets say is left
open: splits of large files are taken to be of equal size, no connection to be larger than others, and folders that go
on where another ends count as capture points of their own.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dissectors.capture.reader import Part
from dissectors.capture.split import Input
from dissectors.errors import InputError
from dissectors.limits import KIB, MIB
from dissectors.options import Options
from pipelines.jobs.cutting import Sharing, Survey, Work
from pipelines.jobs.plan import (
    HELD_BYTES,
    PIECES_A_SORT,
    PLAIN,
    Shares,
    Sized,
    divided,
    part_bytes,
    sharing,
    split_bytes,
    unpacked_size,
)

_DRIVER_BASE = 250 * MIB  # what the driver's Python takes with what it imports, before it knows of a capture
_A_FILE, _A_TASK = 2 * KIB, 4 * KIB  # and for each capture, and each task with its result
_A_RESULT = KIB  # of a task, pickled, at most


class Listed(NamedTuple):
    """A capture of a listing."""

    path: str
    size: int  # bytes, as it lies there


class PlannedStep(NamedTuple):
    """One step of a job."""

    name: str
    tasks: int
    size: int  # bytes that they read in all, about
    largest: int  # bytes that one of them reads, at most


class Forecast(NamedTuple):
    """What a job would do."""

    captures: int
    size: int  # of the captures as they lie there
    unpacked: int  # the same, not compressed
    sites: int
    cores: int
    steps: list[PlannedStep]
    copied: int  # bytes of packets below OUT while the job runs, at most
    pieces: int  # in which they lie there
    spilled: int  # bytes of a local disk that a task may take
    results: int  # bytes that tasks return to the driver, about
    driver: int  # bytes of memory of the driver's Python, about


def listed(lines: Iterable[str]) -> list[Listed]:
    """The captures of a listing: lines of `path<TAB>bytes`, or of JSON objects with `path` and `size`.

    Raises InputError for a line that is neither.
    """
    found = []
    for number, line in enumerate(map(str.strip, lines), 1):
        if not line or line.startswith("#"):
            continue
        try:
            if line.startswith("{"):
                one = json.loads(line)
                found.append(Listed(str(one["path"]), int(one["size"])))
            else:
                path, _, size = line.rpartition("\t")
                found.append(Listed(path, int(size)))
            if not found[-1].path or found[-1].size < 0:
                raise ValueError
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"line {number}: is not path<TAB>bytes, nor a JSON object with path and size") from None
    return found


def forecast(
    captures: Sequence[Listed],
    options: Options,
    cores: int,
    *,
    wanted_split: int | None = None,
    wanted_parts: int | None = None,
) -> Forecast:
    """What a job would do on so many cores. wanted: bytes of a split and number of parts, where the user has a wish."""
    sized = [Sized(Input(n, one.path), unpacked_size(*one)) for n, one in enumerate(captures)]
    total = sum(one.size for one in sized)
    least = split_bytes(total, cores, wanted_split)
    walked = [one for one in sized if one.size > least and one.file.path.endswith(PLAIN)]
    shares = divided(sized, {one.file: Survey(_equal_parts(one.size, least), {}) for one in walked}, least, options)
    spread = sharing(shares.sites, part_bytes(total, cores, wanted_parts))
    steps = []
    if walked:
        steps.append(_step("find places to split", [one.size for one in walked]))
    in_memory = len(shares.works) == 1 and total <= HELD_BYTES and spread.parts == 1
    pieces = 0 if in_memory else sum(_pieces(work, spread) for work in shares.works)
    sizes = _part_sizes(shares, spread)
    if in_memory:
        steps.append(_step("read and decode", [total]))
    else:
        steps.append(_step("cut by connection", [work.size for work in shares.works]))
        steps.append(PlannedStep("sort by part", max(1, -(-pieces // PIECES_A_SORT)), 40 * pieces, 40 * PIECES_A_SORT))
        steps.append(_step("decode", sizes))
    tasks = sum(step.tasks for step in steps)
    return Forecast(
        captures=len(captures),
        size=sum(one.size for one in captures),
        unpacked=total,
        sites=len(shares.sites),
        cores=cores,
        steps=steps,
        copied=0 if in_memory else total,
        pieces=pieces,
        spilled=max((work.size for work in shares.works), default=0) if spread.parts > 1 else 0,
        results=_A_RESULT * tasks,
        driver=_DRIVER_BASE + _A_FILE * len(captures) + _A_TASK * tasks,
    )


def _step(name: str, sizes: Sequence[int]) -> PlannedStep:
    return PlannedStep(name, len(sizes), sum(sizes), max(sizes, default=0))


def _equal_parts(size: int, least: int) -> list[Part]:
    """The parts of a file of which nothing else is known."""
    return [Part(at, min(least, size - at), 0, 0, 0) for at in range(0, size, least)]


def _pieces(work: Work, spread: Sharing) -> int:
    """In how many pieces the packets lie that a task cuts, about."""
    return sum(len(spread.parts_of(site)) for site in {split.site for _, split in work.splits})


def _part_sizes(shares: Shares, spread: Sharing) -> list[int]:
    """About how many bytes come to each part."""
    sizes = [0] * spread.parts
    for site, size in shares.sites.items():
        parts = spread.parts_of(site)
        for part in parts:
            sizes[part] += size // len(parts)
    return sizes
