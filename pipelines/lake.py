"""A lake: the records of a capture store that grows, and what is needed to go on where they end.

    LAKE/records/<table>/site=…/date=…/*.parquet   the records, as of one run over everything that has been read
    LAKE/.lake/manifest.json                       which files were read, and which files of the lake belong together
    LAKE/.lake/state/                              connections that were open at each stage, by site and part
    LAKE/.lake/open/, .lake/names/                 rows with names that others may report later, and names
    LAKE/.lake/cases.json                          what forensics said of bad checksums

A run writes into a staging folder of its own. What it changes is then written down in `.lake/commit.json`, at once;
from there on it is carried out, by the next run if this one is killed: moves, the manifest, removals. Every step may be
done twice. A lake is trusted as the program is: its states are Python's pickles.
"""

from __future__ import annotations

import hashlib
import json
import secrets as random
import tempfile
from collections.abc import Callable, Collection, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from dissectors.errors import BrokerscopeError
from pipelines import leftovers, outputs, storage
from pipelines.record_files import Written
from pipelines.stages import Rows, Site, site_of_json

Parsed = TypeVar("Parsed")
FOLDER = ".lake"
CASES = "cases.json"  # what forensics said of bad checksums, by all that it depends on
FORMAT = 4
_READ = (1, 2, 3, FORMAT)  # 1 and 2 say little of captures, and all before 4 have one stage of each site
_MANIFEST = f"{FOLDER}/manifest.json"
_COMMIT = f"{FOLDER}/commit.json"
_LOCK = f"{FOLDER}/lock"
_STAGING = ".staging-"
_ANSWERS = ".answers-"
_YOUNG = 1.0  # seconds in which such a folder may not have its lock yet


@dataclass
class Manifest:
    """All that a lake knows of itself."""

    made_by: str  # code and options: what they change is decoded anew
    parts: int  # that the connections of a site are shared out to
    format: int = FORMAT
    sites: dict[str, Site] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # below LAKE/.lake/names
    notes: list[Written] = field(default_factory=list)  # findings about files

    def places(self) -> set[str]:
        """Where its captures lie, or lay at last."""
        return {file.place for site in self.sites.values() for file in site.files} - {""}

    def rows(self) -> Iterator[Rows]:
        """All that record files belong to, but the notes."""
        for site in self.sites.values():
            yield from (stage.rows for stage in site.stages)
            yield from site.tails.values()

    def records(self) -> Iterator[Written]:
        """All record files."""
        yield from self.notes
        for rows in self.rows():
            yield from rows.records
            for file in rows.open:
                yield from file.records

    def inside(self) -> Iterator[str]:
        """All files of the lake, below LAKE."""
        yield from (f"records/{file.path}" for file in self.records())
        yield from (f"{FOLDER}/names/{path}" for path in self.names)
        for rows in self.rows():
            yield from (f"{FOLDER}/open/{file.path}" for file in rows.open)
        for site in self.sites.values():
            for stage in site.stages:
                yield from (f"{FOLDER}/state/{state}" for state in stage.states.values() if state)


def load(lake: str) -> Manifest | None:
    """What the lake holds; None where nothing has been written yet.

    Ends what a killed run had begun to carry out, and removes what others had not come to commit.
    """
    left = _parsed(lake, _COMMIT, _plan)
    if left is not None:
        _carry_out(lake, left)
    manifest = _parsed(lake, _MANIFEST, _manifest)
    for name in storage.folders(lake, _STAGING):
        storage.remove_folder(storage.join(lake, name))
    return manifest


def commit(lake: str, staging: str, had: Set[str], after: Manifest) -> None:
    """Make the lake what `after` says.

    staging: below LAKE; holds the files that are new, by their places there. had: what was `inside` before.
    """
    has = set(after.inside())
    plan = {
        "moves": [(storage.join(staging, _staged(name)), name) for name in sorted(has - had)],
        "removals": sorted(had - has),
        "manifest": asdict(after),
    }
    storage.write(storage.join(lake, _COMMIT), json.dumps(plan).encode())
    _carry_out(lake, plan)
    storage.remove_folder(storage.join(lake, staging))


def fingerprint(lake: str) -> str:
    """The same as long as the lake holds the same records; "" where it holds none."""
    manifest = _parsed(lake, _MANIFEST, _manifest)
    if manifest is None:
        return ""
    names = sorted(file.path for file in manifest.records())
    return hashlib.sha256(repr((manifest.made_by, names)).encode()).hexdigest()


def new_staging() -> str:
    """A name, below LAKE, for what a run writes before it commits."""
    return f"{_STAGING}{random.token_hex(8)}"


def give_up(lake: str, staging: str) -> None:
    """Remove what a run has written that does not commit; if it had begun to, the next run goes on."""
    if storage.read(storage.join(lake, _COMMIT)) is None:
        storage.remove_folder(storage.join(lake, staging))


def _carry_out(lake: str, plan: dict[str, Any]) -> None:
    storage.move(lake, [(before, after) for before, after in plan["moves"]])
    storage.write(storage.join(lake, _MANIFEST), json.dumps(plan["manifest"]).encode())
    storage.remove(lake, plan["removals"])
    storage.remove(lake, [_COMMIT])


def _staged(name: str) -> str:
    """Where a file of the lake lies in a staging folder."""
    return name.removeprefix(f"{FOLDER}/")


def _parsed(lake: str, name: str, parse: Callable[[Any], Parsed]) -> Parsed | None:
    """What a file of the lake says; None where there is none. Raises BrokerscopeError where it is damaged."""
    path = storage.join(lake, name)
    data = storage.read(path)
    if data is None:
        return None
    try:
        return parse(json.loads(data))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:  # whatever stands there
        raise BrokerscopeError(f"{path}: is damaged: restore it, or make the lake anew in another folder") from error


def _plan(data: Any) -> dict[str, Any]:
    """What a run had begun to carry out."""
    _manifest(data["manifest"])
    moves = [(str(before), str(after)) for before, after in data["moves"]]
    return {"moves": moves, "removals": list(map(str, data["removals"])), "manifest": data["manifest"]}


def _manifest(data: dict[str, Any]) -> Manifest:
    format = data.get("format")
    if format not in _READ:
        raise BrokerscopeError(f"the lake is of format {format}, this version writes {FORMAT}")
    sites = {name: site_of_json(site, format) for name, site in data["sites"].items()}
    notes = [Written(*file) for file in data["notes"]]
    return Manifest(data["made_by"], data["parts"], FORMAT, sites, data["names"], notes)


@contextmanager
def answers(lake: Path, entries: Collection[str], marker: str) -> Iterator[Path]:
    """A folder for what is made of the records; its `entries` replace those of the lake once the block ends well.

    The marker, one of them, goes first and comes last. Of a block that makes nothing, all stays.
    """
    with ExitStack() as stack:
        with outputs.reported(lake):
            lake.mkdir(parents=True, exist_ok=True)
            leftovers.sweep(lake.glob(f"{_ANSWERS}*"), _YOUNG)
            name = stack.enter_context(tempfile.TemporaryDirectory(prefix=_ANSWERS, dir=lake))
            stack.enter_context(leftovers.locked(Path(name)))
            folder = Path(name, "new")
            folder.mkdir()
        yield folder
        with outputs.reported(lake):
            made = [path for path in (folder / entry for entry in entries) if path.exists() and not path.is_symlink()]
            if made:
                (lake / marker).unlink(missing_ok=True)
            for path in sorted(made, key=lambda path: path.name == marker):
                outputs.swap(path, lake / path.name)


@contextmanager
def locked(lake: str) -> Iterator[None]:
    """Only one run changes a lake at a time. Raises BrokerscopeError where another does.

    Only local file systems have locks, and not all of them.
    """
    local = storage.local_path(lake)
    if local is None:
        yield
        return
    path = local / _LOCK
    with outputs.reported(lake):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("ab")
    with file:
        free = True
        with suppress(OSError):  # a file system without locks
            free = leftovers.lock(file.fileno())
        if not free:
            raise BrokerscopeError(f"{lake}: another run is updating it")
        yield
