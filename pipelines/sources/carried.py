"""What a stream carries from one micro-batch to the next, as it lies in the checkpoint.

    offset  {"state": where it is, or all of it as text, "batch": a number, "ended": whether the captures were taken to
             end there, "captures": files that were read, "captures_gone": those that went before they were read,
             "connections": those that are followed, "state_bytes": the size of the state}

Spark keeps the offset of each micro-batch in its checkpoint, and gives it to the source when a query is started again:
that is the one place which a source has there. A small state is in the offset itself. With the option
`checkpointLocation` (Spark does not tell a source that of its query) states are files beside the offsets, and only
their names are in these:

    CHECKPOINT/brokerscope/<batch>-<random>.state             the state behind a micro-batch
    CHECKPOINT/brokerscope/<batch>-<random>-<number>.parquet  its rows, until it is committed

A state is trusted as the program is: what it holds of engines are Python's pickles.
"""

from __future__ import annotations

import base64
import json
import pickle
import posixpath
import secrets as random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from dissectors.capture.reader import Part
from dissectors.compiling.saved_state import read_state
from dissectors.errors import InputError, UsageError
from dissectors.limits import KIB, MIB
from pipelines.formats import units
from pipelines.storage import filesystem
from pipelines.storage.stages import Site, site_of_json

Offset = dict[str, Any]
NOTHING: Offset = {"state": "", "batch": 0, "ended": False}
FOLDER = "brokerscope"  # below the checkpoint
INLINE_STATE = 1 * MIB  # of a state, compressed, that an offset may hold: Spark keeps some hundred of them in memory
INLINE_ROWS = 256 * KIB  # the same of rows: those of larger micro-batches are decoded once more by tasks
_STAGE_BYTES = 1 * MIB  # of states of a capture point from which it can go on where a file comes late, beside the last
_FORMAT = 1


class StreamInput(NamedTuple):
    """What is to be read of a capture."""

    number: int  # that its packets carry
    path: str
    size: int  # bytes of it that count
    part: Part | None = None  # what of it has not been read; all where it is None


class SiteWork(NamedTuple):
    """What a micro-batch decodes of a capture point."""

    site: str
    state: str | None  # key of the state from which it goes on, of those before the micro-batch
    inputs: tuple[StreamInput, ...]
    known: tuple[StreamInput, ...] = ()  # what of this an earlier micro-batch has read, and gave the rows of
    late_until: int | None = None
    """Packets up to this time (ns) came late, and are decoded by themselves: captures that lie between are gone."""
    ended: bool = False  # whether the captures end behind it


@dataclass
class StreamState:
    """What is carried along."""

    made_by: str = ""  # code and options: what other ones made cannot go on
    sites: dict[str, Site] = field(default_factory=dict)
    engines: dict[str, bytes] = field(default_factory=dict)  # key -> state of the engine of a capture point
    seen: dict[str, int] = field(default_factory=dict)  # capture -> its bytes that have been read, or tried to
    waiting: list[str] = field(default_factory=list)  # captures that were there and have not been read yet
    gone: int = 0  # captures that went before they were read
    joined: dict[str, str] = field(default_factory=dict)  # as of `Options.joined`
    given: dict[str, bytes] = field(default_factory=dict)  # site -> hashes of rows that an end of captures made
    connections: dict[str, int] = field(default_factory=dict)  # site -> those that are followed
    works: list[SiteWork] = field(default_factory=list)  # of the micro-batch that made this state
    notices: list[str] = field(default_factory=list)  # what is to be said of captures that are gone, by the same
    rows: list[str | bytes] | None = None  # its rows: Parquet, or where that is; None where tasks decode them

    def packed(self) -> bytes:
        """All of it."""
        plain = {name: value for name, value in vars(self).items() if name not in ("sites", "works")}
        sites = {name: asdict(site) for name, site in self.sites.items()}
        works = [_plain(work) for work in self.works]
        return zlib.compress(pickle.dumps((_FORMAT, json.dumps(sites), works, plain)), 1)

    @classmethod
    def unpacked(cls, data: bytes) -> StreamState:
        """The inverse. Raises InputError for anything else."""
        try:
            format, sites, works, plain = read_state(zlib.decompress(data))
            if format == _FORMAT:
                made = cls(**plain, works=[_work(work) for work in works])
                made.sites = {name: site_of_json(site) for name, site in json.loads(sites).items()}
                return made
        except Exception as error:  # a damaged pickle may raise anything
            raise InputError(f"the state of the stream is damaged: {error}; begin a new checkpoint") from error
        raise InputError("the state of the stream is of another release; begin a new checkpoint")

    def keep_bounded(self) -> None:
        """Let go of states that nothing refers to, and of earlier ones of a capture point that are too large."""
        for site in self.sites.values():
            size = 0
            for stage in reversed(site.stages[1:-1]):
                size += sum(len(self.engines[key]) for key in stage.states.values() if key in self.engines)
                if size > _STAGE_BYTES:
                    site.forget(stage.clock + 1)
                    break
        wanted = {key for site in self.sites.values() for stage in site.stages for key in stage.states.values()}
        self.engines = {key: data for key, data in self.engines.items() if key in wanted}


def _plain(value: Any) -> Any:
    """A piece of work as values that any release can read."""
    return tuple(map(_plain, value)) if isinstance(value, tuple) else value


def _work(plain: Sequence[Any]) -> SiteWork:
    site, state, *some, late_until, ended = plain
    inputs, known = (
        tuple(StreamInput(number, path, size, part and Part(*part)) for number, path, size, part in each)
        for each in some
    )
    return SiteWork(site, state, inputs, known, late_until, ended)


class Checkpoint:
    """Where states, and rows that wait for their micro-batch, are kept."""

    def __init__(self, folder: str | None) -> None:
        """folder: that of the query's checkpoint, if it is known."""
        self._folder = None if folder is None else filesystem.join(filesystem.absolute(folder), FOLDER)

    def offset(self, carried: StreamState, batch: int, *, ended: bool, rows: Sequence[Path]) -> Offset:
        """The offset behind a micro-batch. rows: what it gives, as Parquet. Raises UsageError where it is too large."""
        name = f"{batch:08}-{random.token_hex(4)}"
        if self._folder is not None:
            carried.rows = [f"{name}-{number}.parquet" for number in range(len(rows))]
            for target, path in zip(carried.rows, rows, strict=True):
                filesystem.write(filesystem.join(self._folder, str(target)), path.read_bytes())
        elif sum(path.stat().st_size for path in rows) <= INLINE_ROWS:
            carried.rows = [path.read_bytes() for path in rows]
        else:
            carried.rows = None
        data = carried.packed()
        if self._folder is not None:
            state = f"{name}.state"
            filesystem.write(filesystem.join(self._folder, state), data)
        elif len(data) <= INLINE_STATE:
            state = base64.b64encode(data).decode()
        else:
            raise UsageError(
                f"the state of the stream takes {units.size(len(data))}, more than an offset holds: set the option"
                " checkpointLocation of readStream to that of the query, where it is kept in files"
            )
        told = {
            "captures": len(carried.seen), "captures_gone": carried.gone,
            "connections": sum(carried.connections.values()), "state_bytes": len(data),
        }  # fmt: skip
        return {"state": state, "batch": batch, "ended": ended, **told}

    def load(self, offset: Mapping[str, Any]) -> StreamState:
        """What is carried behind an offset. Raises InputError where that is not there."""
        state = offset.get("state")
        if state is None:
            raise InputError("the checkpoint is of a release that carried no state; begin a new one")
        if not state:
            return StreamState()
        if not state.endswith(".state"):
            return StreamState.unpacked(base64.b64decode(state))
        if self._folder is None:
            raise UsageError("the state of the stream is in files: set the option checkpointLocation, as before")
        data = filesystem.read(filesystem.join(self._folder, state))
        if data is None:
            raise InputError(f"{filesystem.join(self._folder, state)}: is missing; begin a new checkpoint")
        return StreamState.unpacked(data)

    def place(self, name: str) -> str:
        """The path or URL of a file of rows."""
        assert self._folder is not None
        return filesystem.join(self._folder, name)

    def clean(self, batch: int) -> None:
        """Remove what no micro-batch behind a committed one needs."""
        if self._folder is None:
            return
        for name in filesystem.find(self._folder):
            number, _, kind = posixpath.basename(name).partition("-")
            if number.isdigit() and int(number) < batch + kind.endswith(".parquet"):
                filesystem.remove(self._folder, [name])
