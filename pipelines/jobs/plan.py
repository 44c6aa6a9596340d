"""How captures are shared out: what each task reads, and which connections each part holds."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

from dissectors.capture.files import site_of
from dissectors.capture.source import file_size, open_raw
from dissectors.capture.split import Input, Split, splits
from dissectors.errors import InputError
from dissectors.findings import UNREADABLE
from dissectors.limits import MIB, SHARES, SPLIT_BYTES
from dissectors.options import Options
from pipelines.executors.executor import Executor, grouped
from pipelines.formats import units
from pipelines.jobs.cutting import FileReport, Keys, Sharing, Spread, Survey, Work
from pipelines.jobs.decode import (
    Decoding,
    Job,
    Sorting,
    cut_and_decode,
    cut_to_file,
    decode_from_files,
    read_and_decode,
    sort_places,
    walk_file,
)
from pipelines.jobs.shuffle import Bounds
from pipelines.jobs.surveys import Surveys
from pipelines.storage import filesystem

HELD_BYTES = 64 * MIB  # of captures that one task reads and decodes, with what it has cut in memory
BYTES_A_PART = 512 * MIB  # of captures, decoded by one task, at most, unless their capture point has SHARES of them
LEAST_BYTES = 16 * MIB  # that a task is worth
READ_ROUNDS, DECODE_ROUNDS = 4, 8
"""Tasks for each core, where the captures are large enough: the core that has done its last one does not wait long."""
FILES_A_TASK = 2000  # read by one task, at most
MOST_CUT = 1024 * MIB  # of captures that one task reads, at most: it keeps them on its disk until they are in order
PIECE = MIB  # of packets that a part is to find in one place, about: a task reads so many times this as there are parts
PIECES_A_SORT = 1 << 20  # that one task sorts by part, about
PLAIN = (".pcap", ".pcapng", ".cap", ".dmp")  # files that are hardly compressed
EXPANSION = 5  # times its bytes that a compressed one holds


class Shares(NamedTuple):
    """How the reading of captures is shared out."""

    works: list[Work]  # one a task
    size: int  # bytes to read, about
    sites: Mapping[str, int]  # capture point -> bytes to read, about
    weights: Mapping[tuple[str, int], int]  # capture point, heavy share of its connections -> bytes of payload, about
    carried: int  # bytes of payload of the files that were walked, about


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
    part = part_bytes(shares.size, executor.cores, executor.parts)
    of_job = partial(Job, staging, options, tuple(files), secrets=tuple(keylog))
    if only is None and executor.parts is None and len(chosen) == 1 and _is_one_part(shares, part):
        whole = Split(files[chosen[0]], site_of(files[chosen[0]], options.site, options.joined))
        return of_job(Sharing(1)), [Work(((chosen[0], whole),), shares.size, uncut=True)]
    return of_job(sharing(shares.sites, part, shares.weights, only)), shares.works


def part_bytes(total: int, cores: int, wanted: int | None) -> int:
    """Bytes of captures that a task decodes, about. wanted: so many parts, where the user has a wish."""
    return math.ceil(total / wanted) or 1 if wanted else fair(total, cores, DECODE_ROUNDS, BYTES_A_PART)


def sharing(
    sites: Mapping[str, int], part: int, weights: Mapping[tuple[str, int], int] | None = None, only: Keys | None = None
) -> Sharing:
    """Which parts the connections of each capture point go to, where a part is to have so many bytes.

    Small capture points are put together, whole; a large one has parts of its own, and so has a large share of its
    connections. sites, weights: bytes, as of Shares. only: hashes of the connections to decode, sorted.
    """
    large: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for (site, share), weight in (weights or {}).items():
        if weight > part:
            large[site].append((weight, share))
    spreads: dict[str, Spread] = {}
    parts, held = 0, part
    for site, size in sorted(sites.items()):
        if size < part:
            if held + size > part:
                parts, held = parts + 1, 0
            held += size
            spreads[site] = Spread(parts - 1)
            continue
        alone = sorted(large[site], reverse=True)[: SHARES // 2]
        rest = max(0, size - sum(weight for weight, _ in alone))
        spreads[site] = Spread(parts, min(SHARES, math.ceil(rest / part)) or 1, tuple(share for _, share in alone))
        parts, held = spreads[site].parts.stop, part
    return Sharing(max(1, parts), spreads, only)


def _is_one_part(shares: Shares, part: int) -> bool:
    """Whether one connection of an uncompressed pcap file is so large that the others fit into a part with it.

    To cut such a file is to copy it, which costs half as much as to decode it, and one task decodes it all the same.
    part: bytes that a part holds.
    """
    heaviest = max(shares.weights.values(), default=0)
    return heaviest > part >= shares.carried - heaviest


def split_bytes(total: int, cores: int, wanted: int | None = None) -> int:
    """Bytes that a task reads, about: what the user wants, else so that all cores have some.

    Where there are many parts, a task reads more, so that what it has of each is worth a request to an object store.
    """
    parts = total // part_bytes(total, cores, None)
    return wanted or max(fair(total, cores, READ_ROUNDS, SPLIT_BYTES), min(MOST_CUT, parts * PIECE))


def fair(total: int, cores: int, rounds: int, most: int) -> int:
    """Bytes for each task, so that every core gets `rounds` of them, or fewer where they would be too small."""
    return most if total <= HELD_BYTES else min(most, max(LEAST_BYTES, math.ceil(total / (cores * rounds))))


def share_out(executor: Executor, files: Sequence[Input], options: Options, surveys: Surveys | None = None) -> Shares:
    """Share out these files to tasks. Large ones that `surveys` has not walked are walked by tasks first."""
    whole = sizes([file.path for file in files])
    sized = [Sized(file, file.since.size if file.since else size) for file, size in zip(files, whole, strict=True)]
    total = sum(one.size for one in sized)
    least = surveys.split_bytes if surveys else split_bytes(total, executor.cores, executor.split_bytes)
    large = [one.file for one in sized if one.size > least]
    found: dict[Input, Survey | None] = {file: surveys.take(file.path) if surveys else None for file in large}
    rest = [file for file, survey in found.items() if survey is None]
    read = sum(size for file, size in sized if file in found and found[file] is None)
    described_as = f"looking for places to split captures: {units.counted(len(rest), 'file')}, {units.size(read)}"
    walked = executor.map(partial(walk_file, options, least), rest, described_as, read)
    return divided(sized, found | dict(zip(rest, walked, strict=True)), least, options)


class Sized(NamedTuple):
    """A capture, and about how many bytes of it are to be read."""

    file: Input
    size: int


def divided(files: Sequence[Sized], surveys: Mapping[Input, Survey | None], least: int, options: Options) -> Shares:
    """Share out files to tasks of about `least` bytes. surveys: of those that are larger."""
    weights: dict[tuple[str, int], int] = defaultdict(int)
    sites: dict[str, int] = defaultdict(int)
    pieces = []
    for file, size in files:
        survey = surveys.get(file)
        site = site_of(file.path, options.site, options.joined)
        sites[site] += size
        for share, weight in survey.weights.items() if survey else ():
            weights[site, share] += weight
        for split in splits(file.path, site, survey.parts if survey else [], file.since):
            pieces.append((split.part.size if split.part else size, (file.number, split)))
    pieces.sort(
        key=lambda piece: piece[1][1].site
    )  # a task that reads one capture point has packets for its parts only
    carried = sum(survey.carried for survey in surveys.values() if survey)
    groups = grouped(pieces, itemgetter(0), least, FILES_A_TASK)
    works = [Work(tuple(piece for _, piece in some), sum(size for size, _ in some)) for some in groups]
    return Shares(works, sum(size for _, size in files), sites, weights, carried)


def sizes(files: Sequence[str]) -> list[int]:
    """About how many bytes each is to read."""
    return filesystem.each(_weight, files)


def _weight(path: str) -> int:
    return unpacked_size(path, file_size(path))


def unpacked_size(path: str, size: int) -> int:
    """About how many bytes a capture of a name and size holds once it is not compressed."""
    return size * (1 if path.endswith(PLAIN) else EXPANSION)


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
    described_as = f"reading captures: {about}, copied to OUT for a while"
    cuts = executor.map(partial(cut_to_file, job), works, described_as, read)
    sortings = sorting([cut.bounds for cut in cuts], job.sharing.parts)
    sort = partial(sort_places, job)
    if len(sortings) == 1:  # a moment, less than a job takes
        found = [sort(sortings[0])]
    else:
        pieces = sum(cut.bounds.pieces for cut in cuts)
        found = executor.map(sort, sortings, f"sorting packets by part: {units.count(pieces)} pieces")
    places = [place for some in found for place in some]
    longest = sorted(range(len(places)), key=lambda n: -places[n].size)  # first: nobody waits long for the last one
    size = sum(place.size for place in places)
    described_as = f"decoding: {units.counted(len(places), 'part')}, {units.size(size)}"
    made = executor.map(partial(decode_from_files, job, function), [places[n] for n in longest], described_as, size)
    of_part = dict(zip(longest, made, strict=True))
    return DecodedParts([report for cut in cuts for report in cut.reports], [of_part[n] for n in range(len(places))])


def sorting(cuts: Sequence[Bounds], parts: int) -> list[Sorting]:
    """The work of tasks that say of each part where its packets lie: some parts each, next to one another."""
    tasks = max(1, min(parts, math.ceil(sum(cut.pieces for cut in cuts) / PIECES_A_SORT)))
    step = math.ceil(parts / tasks)
    ranges = [range(first, min(first + step, parts)) for first in range(0, parts, step)]
    everywhere = [cut for cut in cuts if cut.is_for_all]
    return [
        Sorting(
            some,
            (
                *everywhere,
                *(cut for cut in cuts if not cut.is_for_all and cut.first < some.stop and cut.last >= some.start),
            ),
        )
        for some in ranges
    ]


def checked(problems: Iterable[tuple[str, str]], files: int) -> list[tuple[str, str]]:
    """What is wrong with so many capture files, in order. Raises InputError where none of them could be read.

    problems: kind of finding, message.
    """
    found = sorted(problems)
    if files and sum(kind == UNREADABLE for kind, _ in found) == files:
        raise InputError("; ".join(message for _, message in found))
    return found
