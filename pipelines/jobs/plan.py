"""How captures are shared out: what each task reads, and which connections each part holds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple

from dissectors.capture.files import site_of
from dissectors.capture.source import file_size, open_raw
from dissectors.capture.split import Input, Split, splits
from dissectors.errors import InputError
from dissectors.findings import UNREADABLE
from dissectors.limits import MIB, SPLIT_BYTES
from dissectors.options import Options
from pipelines.executors.executor import Executor
from pipelines.formats import units
from pipelines.jobs.cutting import FileReport, Keys, Sharing, Survey, Work
from pipelines.jobs.decode import (
    Decoding,
    Job,
    cut_and_decode,
    cut_to_file,
    decode_from_files,
    read_and_decode,
    walk_file,
)
from pipelines.jobs.shuffle import joined
from pipelines.jobs.surveys import Surveys
from pipelines.storage import filesystem

HELD_BYTES = 64 * MIB  # of captures that one task reads and decodes, with what it has cut in memory
BYTES_A_PART = 128 * MIB  # of captures, decoded by one task, at most
LEAST_BYTES = 16 * MIB  # that a task is worth
READ_ROUNDS, DECODE_ROUNDS = 4, 8
"""Tasks for each core, where the captures are large enough: the core that has done its last one does not wait long."""
FILES_A_TASK = 2000  # read by one task, at most
PLAIN = (".pcap", ".pcapng", ".cap", ".dmp")  # files that are hardly compressed
EXPANSION = 5  # times its bytes that a compressed one holds


class Shares(NamedTuple):
    """How the reading of captures is shared out."""

    works: list[Work]  # one a task
    size: int  # bytes to read, about
    weights: Counter[int]  # share of the connections -> about how many bytes of payload


class DecodedParts(NamedTuple):
    """What a job made of captures."""

    reports: list[FileReport]
    parts: list[Any]  # what the function made of each part that had packets


def plan(
    executor: Executor,
    files: Sequence[str],
    options: Options,
    staging: str,
    keylog: Sequence[bytes],
    *,
    chosen: Sequence[int] | None = None,
    only: Keys | None = None,
    surveys: Surveys | None = None,
) -> tuple[Job, list[Work]]:
    """What each task of a job reads, and which connections each part holds.

    chosen: indices of the files to read; all where it is None. only: hashes of the connections to decode, sorted.
    """
    chosen = range(len(files)) if chosen is None else chosen
    shares = share_out(executor, [Input(i, files[i]) for i in chosen], options, surveys)
    part = fair(shares.size, executor.cores, DECODE_ROUNDS, BYTES_A_PART)
    of_job = partial(Job, staging, options, tuple(files), secrets=tuple(keylog))
    if only is None and executor.parts is None and len(chosen) == 1 and _is_one_part(shares, part):
        whole = Split(files[chosen[0]], site_of(files[chosen[0]], options.site, options.joined))
        return of_job(Sharing(1)), [Work(((chosen[0], whole),), shares.size, uncut=True)]
    large = [key for key, weight in shares.weights.most_common() if weight > part] if shares.size > part else []
    rest = max(0, shares.size - sum(shares.weights[key] for key in large))
    shared = executor.parts or math.ceil(rest / part) or 1
    sharing = Sharing(shared, {key: i for i, key in enumerate(large)}, only)
    return of_job(sharing), shares.works


def _is_one_part(shares: Shares, part: int) -> bool:
    """Whether one connection of an uncompressed pcap file is so large that the others fit into a part with it.

    To cut such a file is to copy it, which costs half as much as to decode it, and one task decodes it all the same.
    part: bytes that a part holds.
    """
    heaviest = max(shares.weights.values(), default=0)
    return heaviest > part >= shares.weights.total() - heaviest


def split_bytes(executor: Executor, total: int) -> int:
    """Bytes that a task reads, about: what the user says, else so that all cores have some."""
    return executor.split_bytes or fair(total, executor.cores, READ_ROUNDS, SPLIT_BYTES)


def fair(total: int, cores: int, rounds: int, most: int) -> int:
    """Bytes for each task, so that every core gets `rounds` of them, or fewer where they would be too small."""
    return most if total <= HELD_BYTES else min(most, max(LEAST_BYTES, math.ceil(total / (cores * rounds))))


def share_out(executor: Executor, files: Sequence[Input], options: Options, surveys: Surveys | None = None) -> Shares:
    """Share out these files to tasks. Large ones that `surveys` has not walked are walked by tasks first."""
    whole = sizes([file.path for file in files])
    weighed = [file.since.size if file.since else size for file, size in zip(files, whole, strict=True)]
    total = sum(weighed)
    least = surveys.split_bytes if surveys else split_bytes(executor, total)
    large = [file for file, size in zip(files, weighed, strict=True) if size > least]
    found: dict[Input, Survey | None] = {file: surveys.take(file.path) if surveys else None for file in large}
    rest = [file for file, survey in found.items() if survey is None]
    read = sum(size for file, size in zip(files, weighed, strict=True) if file in found and found[file] is None)
    described_as = f"looking for places to split captures: {units.counted(len(rest), 'file')}, {units.size(read)}"
    walked = executor.map(partial(walk_file, options, least), rest, described_as, read)
    found |= dict(zip(rest, walked, strict=True))
    weights: Counter[int] = Counter()
    pieces = []
    for file, size in zip(files, weighed, strict=True):
        survey = found.get(file)
        weights.update(survey.weights if survey else {})
        site = site_of(file.path, options.site, options.joined)
        for split in splits(file.path, site, survey.parts if survey else [], file.since):
            pieces.append((split.part.size if split.part else size, (file.number, split)))
    return Shares(_packed(pieces, least), total, weights)


def _packed(pieces: Sequence[tuple[int, Any]], most: int) -> list[Work]:
    """Pieces, in order, as the work of tasks of about `most` bytes each."""
    out: list[list[Any]] = []
    held = most
    for size, piece in pieces:
        if not out or held + size > most or len(out[-1]) >= FILES_A_TASK:
            out.append([])
            held = 0
        out[-1].append((size, piece))
        held += size
    return [Work(tuple(piece for _, piece in some), sum(size for size, _ in some)) for some in out]


def sizes(files: Sequence[str]) -> list[int]:
    """About how many bytes each is to read."""
    return filesystem.each(_weight, files)


def _weight(path: str) -> int:
    return file_size(path) * (1 if path.endswith(PLAIN) else EXPANSION)


def read_keylog(options: Options) -> list[bytes]:
    """The TLS key log that the user names."""
    if options.keylog is None:
        return []
    with open_raw(options.keylog) as file:
        return [file.read()]


def decoded(executor: Executor, job: Job, works: Sequence[Work], function: Decoding) -> DecodedParts:
    """What a function makes of the packets of each part.

    Captures are cut to files, and parts decoded from them. Nothing goes through a file where one task does both: it
    decodes an uncut capture as it reads it, and cuts small captures in memory.
    """
    files = {split.path for work in works for _, split in work.splits}
    read = sum(work.size for work in works)
    about = f"{units.counted(len(files), 'file')}, {units.size(read)}"
    is_small = len(works) == 1 and read <= HELD_BYTES
    is_uncut = any(work.uncut for work in works)
    if is_uncut or (is_small and (job.sharing.parts == 1 or job.all_reports)):  # a lake's parts say nothing of news
        task = partial(read_and_decode if is_uncut else cut_and_decode, job, function)
        return DecodedParts(*executor.map(task, works, f"reading and decoding captures: {about}")[0])
    cuts = executor.map(partial(cut_to_file, job), works, f"reading captures: {about}", read)
    index = joined([cut.packets for cut in cuts])
    parts = list(index.by_part(job.sharing.parts))
    described_as = f"decoding: {units.counted(len(parts), 'part')}, {units.size(index.size)}"
    made = executor.map(partial(decode_from_files, job, function), parts, described_as, index.size)
    return DecodedParts([report for cut in cuts for report in cut.reports], made)


def checked(problems: Iterable[tuple[str, str]], files: int) -> list[tuple[str, str]]:
    """What is wrong with so many capture files, in order. Raises InputError where none of them could be read.

    problems: kind of finding, message.
    """
    found = sorted(problems)
    if files and sum(kind == UNREADABLE for kind, _ in found) == files:
        raise InputError("; ".join(message for _, message in found))
    return found
