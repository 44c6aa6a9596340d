"""A lake: the records of a capture store that grows, and what is needed to go on where they end.

    HOME/records/<table>/*.parquet      the records, as of one run over everything that has been read
    HOME/.lake/manifest.json            which captures were read, and which files of the lake belong together
    HOME/.lake/state/                   connections that were open at each stage, by site and part
    HOME/.lake/open/, HOME/.lake/names/ rows with names that others may report later, and names
    LAKE/.lake/cases.json               what forensics said of bad checksums
    LAKE/.lake/lock                     of the run that changes the lake

A run writes into a staging folder. It commits in one step, which a reader sees wholly or not at all:

On a local file system HOME is LAKE/.lake/commits/<id>, a folder for each commit. It is made beside the last one: of
hard links, which cost no room, to files that stay, and of the new files. LAKE/records is a symbolic link into it, and
the commit is the rename that replaces this link. A link, not two folders that are exchanged, because every local file
system renames in one step, while few exchange; and because whoever resolves the link keeps one commit while others
follow.

On an object store, which has no renames, HOME is LAKE. New files get names that no file had before, and the commit is
the one write of the manifest. Only those that go by the manifest (`StoredRecords`, or its list of files) see one commit
there.

What a commit leaves behind, or a run that was killed, the next run removes when it begins: readers of the commit before
have that long. A lake is trusted as the program is: its states are Python's pickles.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import secrets as random
import shutil
import tempfile
from collections.abc import Collection, Iterator, Set
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dissectors.errors import BrokerscopeError
from pipelines.storage import filesystem, leftovers, outputs
from pipelines.storage.layout import LAKE_FOLDER, RECORD_FOLDER
from pipelines.storage.record_files import Written
from pipelines.storage.stages import File, Rows, Site, file_of_json, site_of_json

CASES = "cases.json"
FORMAT = 7
_OF_FOLDERS = 4  # in this format HOME is LAKE everywhere, and records lie in folders by site and date
_READ = range(_OF_FOLDERS, FORMAT + 1)
_MANIFEST = f"{LAKE_FOLDER}/manifest.json"
_COMMITS = f"{LAKE_FOLDER}/commits"
_LOCK = f"{LAKE_FOLDER}/lock"
_OF_ALL_COMMITS = {Path(path).name for path in (_LOCK, _COMMITS, CASES)}  # in LAKE/.lake
_LINKS = 8  # that lead from one to another, at most
_STAGING = ".staging-"
_ANSWERS = ".answers-"
_YOUNG = 1.0  # seconds in which such a folder may not have its lock yet


@dataclass
class Manifest:
    """The manifest: which captures were read, how far, and which files of the lake hold what came of them."""

    made_by: str  # code and options: what they change is decoded anew
    parts: int  # that the connections of a site are shared out to
    format: int = FORMAT
    sites: dict[str, Site] = field(default_factory=dict)
    names: list[str] = field(default_factory=list)  # below HOME/.lake/names
    notes: list[Written] = field(default_factory=list)  # findings about files
    empty: list[Written] = field(default_factory=list)  # files without rows, of tables that have none
    gone: list[File] = field(default_factory=list)  # captures that could not be read again when the rest was
    kept: list[Written] = field(default_factory=list)  # rows of these
    notices: list[tuple[str, str]] = field(default_factory=list)  # kind of finding, message: what that means
    since: int | None = None  # ns: what ended before has expired
    joined: dict[str, str] = field(default_factory=dict)  # capture points that are one with another, by name
    edition: str = ""  # of the records: another one where they hold other rows; "" in formats before

    @property
    def is_flat(self) -> bool:
        """Whether the files of a table lie in one folder."""
        return self.format > _OF_FOLDERS

    def has_expired(self, file: File) -> bool:
        """Whether a capture ended before the time up to which the lake has expired."""
        return self.since is not None and bool(file.packets) and file.clock < self.since

    def problems(self) -> list[tuple[str, str]]:
        """Kind of finding, message: what is to be said of its captures."""
        files = [file for site in self.sites.values() for file in site.files]
        return [problem for file in (*files, *self.gone) for problem in file.problems] + self.notices

    def places(self) -> set[str]:
        """Where its captures lie, or lay at last."""
        return {file.place for site in self.sites.values() for file in site.files} - {""}

    def paths(self) -> Iterator[str]:
        """The captures that were read, by the names that records have."""
        for site in self.sites.values():
            yield from (file.path for file in site.files)

    def rows(self) -> Iterator[Rows]:
        """All rows of captures, by their origin."""
        for site in self.sites.values():
            yield from site.rows()

    def records(self) -> Iterator[Written]:
        """All record files, by their paths below HOME/records."""
        yield from self.empty
        yield from self.notes
        yield from self.kept
        for rows in self.rows():
            yield from rows.records
            for file in rows.open:
                yield from file.records

    def inside(self) -> Iterator[str]:
        """All files of the commit but the manifest, below HOME."""
        yield from (f"{RECORD_FOLDER}/{file.path}" for file in self.records())
        yield from (f"{LAKE_FOLDER}/names/{path}" for path in self.names)
        for rows in self.rows():
            yield from (f"{LAKE_FOLDER}/open/{file.path}" for file in rows.open)
        for site in self.sites.values():
            for stage in site.stages:
                yield from (f"{LAKE_FOLDER}/state/{state}" for state in stage.states.values() if state)


@dataclass(frozen=True)
class Commit:
    """What a lake holds."""

    home: str  # path or URL
    manifest: Manifest
    files: Set[str]  # below HOME, all but the manifest
    edition: str  # of the records

    @classmethod
    def of(cls, home: str, manifest: Manifest) -> Commit:
        """The commit that a manifest describes as it is now; the manifest may be changed afterwards."""
        return cls(home, manifest, frozenset(manifest.inside()), edition_of(manifest))

    @property
    def records(self) -> str:
        """The folder of the records."""
        return filesystem.join(self.home, RECORD_FOLDER)


@dataclass(frozen=True)
class Staged:
    """Where the files of a lake lie while a run makes the next commit."""

    before: Commit | None
    staging: str  # folder of the files that are new

    def record(self, file: Written) -> str:
        """The path or URL of a file of records."""
        return self._place(f"{RECORD_FOLDER}/{file.path}")

    def waiting(self, path: str) -> str:
        """The path or URL of a file of rows in which names are not known for good."""
        return self._place(f"{LAKE_FOLDER}/open/{path}")

    def names(self, path: str) -> str:
        """The path or URL of a file of names."""
        return self._place(f"{LAKE_FOLDER}/names/{path}")

    def state(self, path: str) -> str:
        """The path or URL of an engine's state."""
        return self._place(f"{LAKE_FOLDER}/state/{path}")

    def is_new(self, file: Written) -> bool:
        """Whether the last commit lacks a file of records."""
        return self.before is None or f"{RECORD_FOLDER}/{file.path}" not in self.before.files

    def _place(self, inside: str) -> str:
        if self.before is not None and inside in self.before.files:
            return filesystem.join(self.before.home, inside)
        return filesystem.join(self.staging, _staged(inside))


def last(lake: str) -> Commit | None:
    """The last commit of a lake; None where there is none. Raises BrokerscopeError where its manifest is damaged."""
    return commit_of(filesystem.join(lake, RECORD_FOLDER))


def commit_of(records: str) -> Commit | None:
    """The commit that a folder of records belongs to, or that a link to one leads to; None where it is of none.

    Raises BrokerscopeError where its manifest is damaged.
    """
    home = posixpath.dirname(_resolved(records))
    path = filesystem.join(home, _MANIFEST)
    data = filesystem.read(path)
    if data is None:
        return None
    try:
        return Commit.of(home, _manifest(json.loads(data)))
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:  # whatever stands there
        raise BrokerscopeError(f"{path}: is damaged: restore it, or analyze into another OUT") from error


def _resolved(path: str) -> str:
    """Where a link leads, which stays there when the link is replaced. The folders that it lies in stay as given."""
    local = filesystem.local_path(path)
    if local is None:
        return path
    for _ in range(_LINKS):
        if not local.is_symlink():
            break
        local = local.parent / local.readlink()
    return str(local)


def _manifest(data: dict[str, Any]) -> Manifest:
    format = data.get("format")
    if not isinstance(format, int) or format not in _READ:
        raise BrokerscopeError(f"OUT has format {format}, and this version writes {FORMAT}; use another OUT")
    read: dict[str, Any] = {field.name: data[field.name] for field in fields(Manifest) if field.name in data}
    read |= {key: [Written(*file) for file in read.get(key, ())] for key in ("notes", "empty", "kept")}
    read["names"] = data["names"]
    read["sites"] = {name: site_of_json(site) for name, site in data["sites"].items()}
    read["gone"] = [file_of_json(file) for file in data.get("gone", ())]
    read["notices"] = [(kind, message) for kind, message in data.get("notices", ())]
    return Manifest(**read)


def commit(lake: str, staging: str, before: Commit | None, after: Manifest) -> Commit:
    """Make the lake what `after` says, in one step; returns what it is then.

    staging: below LAKE; holds the files that are new, by their places there. before: the last commit.
    """
    local = filesystem.local_path(lake)
    if local is None:
        return _written(lake, staging, before, after)
    with outputs.reported(lake):
        return _renamed(local, staging, before, after)


def _renamed(lake: Path, staging: str, before: Commit | None, after: Manifest) -> Commit:
    """Commit on a local file system, by the rename of a link."""
    name = random.token_hex(8)
    home = lake / _COMMITS / name
    folders = set[Path]()
    for file in sorted(set(after.inside())):
        source = Path(before.home, file) if before and file in before.files else lake / staging / _staged(file)
        target = home / file
        if target.parent not in folders:
            target.parent.mkdir(parents=True, exist_ok=True)
            folders.add(target.parent)
        _link(source, target)
    _write(str(home), after)
    link = home.with_name(f"{name}.link")
    link.symlink_to(Path(_COMMITS, name, RECORD_FOLDER))  # as LAKE/records resolves it
    records = lake / RECORD_FOLDER
    if records.is_symlink() or not records.exists():
        link.replace(records)
    else:  # a folder, of the format before
        outputs.swap(link, records)
    return Commit.of(str(home), after)


def _link(source: Path, target: Path) -> None:
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:  # a file system without hard links, or too many of them to one file
        shutil.copyfile(source, target)


def _written(lake: str, staging: str, before: Commit | None, after: Manifest) -> Commit:
    """Commit on an object store, by one write of the manifest."""
    if before is None:
        _write(lake, Manifest(after.made_by, after.parts))  # files that the manifest lacks are known as left behind
    new = sorted(set(after.inside()) - (before.files if before else set()))
    filesystem.move(lake, [(filesystem.join(staging, _staged(file)), file) for file in new])
    _write(lake, after)
    return Commit.of(lake, after)


def _write(home: str, manifest: Manifest) -> None:
    """Write a manifest; besides what is needed to go on it lists the record files, by table, below HOME."""
    files: dict[str, list[str]] = {}
    for file in manifest.records():
        files.setdefault(file.table, []).append(f"{RECORD_FOLDER}/{file.path}")
    filesystem.write(filesystem.join(home, _MANIFEST), json.dumps({"files": files, **asdict(manifest)}).encode())


def clean(lake: str, kept: Commit | None) -> None:
    """Remove all that does not belong to the last commit: of commits before it, and of runs that were killed.

    Nobody else may change the lake meanwhile.
    """
    for name in filesystem.folders(lake, _STAGING):
        filesystem.remove_folder(filesystem.join(lake, name))
    local = filesystem.local_path(lake)
    if local is not None:
        _clean_local(local, kept)
    elif kept is not None:
        ours = {_MANIFEST, f"{LAKE_FOLDER}/{CASES}", *kept.files}
        there = [
            f"{root}/{file}"
            for root in (RECORD_FOLDER, LAKE_FOLDER)
            for file in filesystem.find(filesystem.join(lake, root))
        ]
        filesystem.remove(lake, [file for file in there if file not in ours])


def _clean_local(lake: Path, kept: Commit | None) -> None:
    commits = lake / _COMMITS
    left = [path for path in commits.iterdir() if kept is None or path != Path(kept.home)] if commits.is_dir() else []
    if kept is not None and kept.manifest.is_flat:  # of what the format before kept there, nothing is needed
        left += [path for path in (lake / LAKE_FOLDER).iterdir() if path.name not in _OF_ALL_COMMITS]
    for path in left:
        leftovers.remove(path)


def fingerprint(lake: str) -> str:
    """A text that stays equal as long as the lake holds the same rows; "" where it holds none."""
    there = last(lake)
    return there.edition if there else ""


def edition_of(manifest: Manifest) -> str:
    """The edition of a lake's records; of formats before, a digest of the names of their files."""
    names = sorted(file.path for file in manifest.records())
    return manifest.edition or hashlib.sha256(repr((manifest.made_by, names)).encode()).hexdigest()


def new_edition() -> str:
    """An edition that no records had."""
    return random.token_hex(16)


@contextmanager
def staging(lake: str) -> Iterator[str]:
    """The name, below LAKE, of a folder for what a run writes before it commits; gone afterwards."""
    name = f"{_STAGING}{random.token_hex(8)}"
    try:
        yield name
    finally:
        filesystem.remove_folder(filesystem.join(lake, name))


def _staged(name: str) -> str:
    """Where a file of the lake lies in a staging folder."""
    return name.removeprefix(f"{LAKE_FOLDER}/")


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
    local = filesystem.local_path(lake)
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
