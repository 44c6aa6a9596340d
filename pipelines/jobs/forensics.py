"""What broke bad batches: the verdicts of `brokerscope forensics`, from records, by tasks.

    records ─ bad batches? ─ none: nothing more is read
                           └ some: the suspect bytes, which the run kept; else their connections are decoded again
                                   the files of their capture points are searched for the packets that carried them
                                   each case is looked into, as the local command does, and becomes its JSON object

Every step is a job of an executor; what comes back from its tasks is bounded by `LISTED` rows and the
limits `suspects` and `suspect_bytes`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dissectors.capture.files import site_of
from dissectors.forensics import Case, report
from dissectors.forensics.cases import examine
from dissectors.forensics.investigation import in_order, paired
from dissectors.forensics.packets import Carriers, Wanted, gather_file, joined
from dissectors.forensics.related import Relations
from dissectors.options import Options
from dissectors.redaction import public_path
from dissectors.rows.sink import Suspect, bounded
from pipelines.executors.executor import Executor, in_groups
from pipelines.formats import units
from pipelines.jobs.cutting import key_of
from pipelines.jobs.decode import Job, PartPackets, decode_rows
from pipelines.jobs.plan import decoded as decode_parts
from pipelines.jobs.plan import plan, sizes
from pipelines.jobs.records import DecodedRecords
from pipelines.storage import filesystem
from pipelines.storage.working_folders import working_folder
from pipelines.tables.bad_batches import bad_batches, bad_connections, lifetimes, surroundings
from pipelines.tables.compute import TableEngine

Row = dict[str, Any]
_ENDS = ("client_ip", "client_port", "server_ip", "server_port")
_CONNECTION = ("site", "connection", "incarnation")
_UNIT = (*_CONNECTION, "stream_offset", "role", "packet", "position")  # what tells bad batches apart
_ITEMS = 8  # that a task looks into
Span = tuple[int, int]  # earliest and latest time, ns
_ALWAYS: Span = (-(1 << 63), 1 << 63)
_MARGIN_NS = 60_000_000_000  # around the times of a connection


def cases(
    executor: Executor, engine: TableEngine, decoded: DecodedRecords, store: str, known_at: str | None = None
) -> list[Row]:
    """One JSON object a bad checksum, as `brokerscope forensics --format json` writes them, in order of time.

    engine: holds the records. store: a folder or URL where tasks may write for a while. known_at: a file that keeps the
    objects, so that the next run over a growing store reads captures again only for bad batches that are new, or of
    which more has become known. Captures whose time span is not known are read again for every bad batch of their
    capture point. Of more than LISTED bad batches, the first are looked into.
    """
    bad = in_order(bad_batches(engine))
    if not bad:
        return []
    around = surroundings(engine)
    connections = {tuple(row[key] for key in _CONNECTION): row for row in bad_connections(engine)}
    near = [around.of(row) for row in bad]
    marks = [
        _mark(row, relations, connections.get(tuple(row[key] for key in _CONNECTION)), decoded.options)
        for row, relations in zip(bad, near, strict=True)
    ]
    known: dict[str, list[Row]] = json.loads((known_at and filesystem.read(known_at)) or "{}")
    fresh = [n for n, mark in enumerate(marks) if mark not in known]
    made = _look(executor, engine, decoded, store, [bad[n] for n in fresh], [near[n] for n in fresh])
    known |= dict(zip((marks[n] for n in fresh), made, strict=True))
    found = {mark: known[mark] for mark in marks}
    if known_at is not None:
        filesystem.write(known_at, json.dumps(found).encode())
    return [case for some in found.values() for case in some]


def _mark(row: Row, relations: Relations, connection: Row | None, options: Options) -> str:
    """A digest of a bad batch and of all that is known of it: equal digests make equal cases."""
    known = row, relations, connection, options._replace(joined=None)  # the row says where it was captured
    return hashlib.sha256(repr(known).encode("utf-8", "surrogatepass")).hexdigest()


def _concerned(
    files: Sequence[str], options: Options, bad: Sequence[Row], alive: Sequence[Row], spans: Mapping[str, Span]
) -> list[int]:
    """The files of the bad batches' capture points with packets from when their endpoints were connected.

    alive: as of `lifetimes`. All connections between two endpoints count: each has a number among them.
    """
    known: dict[tuple[str, int], list[Span]] = {}
    for row in alive:
        span = _ns(row["start_time"]) - _MARGIN_NS, _ns(row["end_time"]) + _MARGIN_NS
        known.setdefault(_endpoints(row), []).append(span)
    lives: dict[str, list[Span]] = {}
    for site, key in set(map(_endpoints, bad)):
        lives.setdefault(site, []).extend(known.get((site, key), [_ALWAYS]))
    sites = [site_of(path, options.site, options.joined) for path in files]
    times = [spans.get(path, _ALWAYS) for path in files]
    return [
        number
        for number, (site, (first, last)) in enumerate(zip(sites, times, strict=True))
        if any(first <= end and start <= last for start, end in lives.get(site, ()))
    ]


def _endpoints(row: Row) -> tuple[str, int]:
    return row["site"], key_of(*(row[name] for name in _ENDS))


def _ns(time: datetime) -> int:
    return int(time.timestamp() * 1_000_000) * 1000


def _look(
    executor: Executor,
    engine: TableEngine,
    decoded: DecodedRecords,
    store: str,
    bad: Sequence[Row],
    near: Sequence[Relations],
) -> list[list[Row]]:
    """The cases of each of these bad batches: one where a limit left no bytes, several where several sums are bad."""
    if not bad:
        return []
    files, options = decoded.files, decoded.options
    concerned = _concerned(files, options, bad, lifetimes(engine), decoded.spans)
    suspects = decoded.suspects
    if suspects is None:
        with working_folder(store) as staging:
            suspects = _suspects(executor, decoded, concerned, staging, bad)
    place = {_where(row): n for n, row in enumerate(bad)}
    pairs = [(row, suspect, near[place[_where(row)]]) for row, suspect in paired(bad, suspects)]
    wanted = [Wanted(suspect, relations.witnesses) for _, suspect, relations in pairs if suspect is not None]
    found = iter(_gather(executor, files, concerned, options, wanted))
    evidence = [
        _Evidence(row, suspect, next(found), relations) if suspect else _Evidence(row)
        for row, suspect, relations in pairs
    ]
    out: list[list[Row]] = [[] for _ in bad]
    names = [public_path(path) for path in files]
    described_as = f"looking into bad checksums: {units.count(len(evidence))}"
    made = in_groups(executor, partial(_examined, names), evidence, _ITEMS, described_as)
    for one, case in zip(evidence, made, strict=True):
        out[place[_where(one.row)]].append(case)
    return out


def _where(row: Row) -> tuple[Any, ...]:
    return tuple(row[key] for key in _UNIT)


# --- the suspect bytes -----------------------------------------------------------------------------------------------


def _suspects(
    executor: Executor, decoded: DecodedRecords, concerned: Sequence[int], staging: str, bad: Sequence[Row]
) -> list[Suspect]:
    """What the bad rows were made from: their connections, decoded once more."""
    only = np.unique(np.array([_endpoints(row)[1] for row in bad], np.uint64))
    wanted = decoded.options._replace(tables=("batches", "findings"))
    job, works = plan(executor, decoded.files, wanted, staging, decoded.secrets, chosen=concerned, only=only)
    found = [suspect for some in decode_parts(executor, job, works, _decode).parts for suspect in some]
    return bounded(found, decoded.options.limits)


def _decode(part: PartPackets, job: Job) -> list[Suspect]:
    running, batches = decode_rows(part, job)
    running.sink.suspects = []
    for _ in batches:
        pass  # the rows are there already
    return running.sink.suspects


# --- the packets, and the cases --------------------------------------------------------------------------------------


def _gather(
    executor: Executor, files: Sequence[str], concerned: Sequence[int], options: Options, wanted: Sequence[Wanted]
) -> list[Carriers]:
    """The packets that carried them; a task some files."""
    plain = options._replace(keylog=None)
    named = {witness.file for one in wanted for witness in one.witnesses}
    chosen = {*concerned, *(n for n, path in enumerate(files) if public_path(path) in named)}
    paths = [(n, files[n]) for n in sorted(chosen)]
    if not wanted:
        return []
    read = sum(sizes([path for _, path in paths]))
    described_as = f"looking for packets of bad batches: {units.counted(len(paths), 'file')}, {units.size(read)}"
    found = in_groups(executor, partial(_search, list(wanted), plain), paths, _ITEMS, described_as, read)
    return joined(found, wanted)


def _search(wanted: list[Wanted], options: Options, paths: Sequence[tuple[int, str]]) -> list[list[Carriers]]:
    """What some files, each with its number, hold of the packets that are wanted."""
    return [gather_file(*path, wanted, options) for path in paths]


class _Evidence(NamedTuple):
    """What there is to tell why a checksum is bad."""

    row: Row  # of `batches`
    suspect: Suspect | None = None  # None where a limit left no bytes
    carriers: Carriers | None = None  # the packets that brought them
    near: Relations = Relations()


def _examined(names: Sequence[str], evidence: Sequence[_Evidence]) -> list[Row]:
    """The case of each, as a JSON object. names: of all files."""
    return [_case(names, one) for one in evidence]


def _case(names: Sequence[str], one: _Evidence) -> Row:
    if one.suspect is None or one.carriers is None:
        return report.as_json(Case(one.row))
    return report.as_json(examine(one.row, one.suspect, one.carriers, one.near.rows, names))
