"""Runs of the command as a user has them, and what they leave, wherever that is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import filesystem
from pipelines.storage.stored_records import StoredRecords

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
BUCKET = "captures"
SITE = r"--site=(samples)"  # names that are the same wherever the captures lie
_PLACE = re.compile(r"[^\s'\"(]*/samples/")  # of a capture: another one wherever it lies


def brokerscope(*words: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run the command."""
    command = [sys.executable, "-m", "brokerscope", *words]
    wanted = os.environ | {"PYTHONPATH": str(ROOT)} | (env or {})
    return subprocess.run(command, capture_output=True, text=True, env=wanted, check=False)


def upload_samples(bucket: str) -> None:
    """Put the captures of samples/ below BUCKET/samples."""
    import fsspec

    fs, inside = fsspec.core.url_to_fs(bucket)
    fs.makedirs(inside, exist_ok=True)
    for path in SAMPLES.glob("*.pcap*"):
        filesystem.write(f"{bucket}/samples/{path.name}", path.read_bytes())


@dataclass
class Out:
    """What `analyze` left: rows of records and tables, by folder or table, in one order."""

    root: str
    rows: dict[str, list[str]]
    printed: str

    @classmethod
    def made_of(cls, captures: list[str], out: str | Path, scratch: Path, *options: str) -> Out:
        """Run `analyze`, which must end well."""
        done = brokerscope("analyze", *captures, "-o", str(out), SITE, *options)
        assert done.returncode == 0, done.stderr[-3000:]
        return cls.read(str(out), done.stdout + done.stderr)

    @classmethod
    def read(cls, root: str, printed: str = "") -> Out:
        found: dict[str, list[str]] = {}
        stored = StoredRecords.of(filesystem.join(root, "records"))
        for table in stored.files:
            found[f"records/{table}"] = [
                row for file in stored.sources(table, stored.files[table]) for row in _rows(file)
            ]
        for name in filesystem.find(filesystem.join(root, "tables")):
            if name.endswith(".parquet"):
                kind = f"tables/{name.partition('/')[0].removesuffix('.parquet')}"
                found.setdefault(kind, []).extend(_rows(filesystem.join(root, "tables", name)))
        return cls(root, {kind: sorted(rows) for kind, rows in found.items()}, printed)

    def differs(self, other: Out) -> dict[str, list[str]]:
        """The rows that only one of the two has."""
        kinds = self.rows.keys() | other.rows.keys()
        found = {kind: set(self.rows.get(kind, ())) ^ set(other.rows.get(kind, ())) for kind in kinds}
        lengths = {kind for kind in kinds if len(self.rows.get(kind, ())) != len(other.rows.get(kind, ()))}
        return {kind: sorted(rows)[:6] for kind, rows in found.items() if rows or kind in lengths}

    def entries(self) -> set[str]:
        """What lies at the top of OUT."""
        return {name.partition("/")[0] for name in filesystem.find(self.root)}


def _rows(path: str) -> list[str]:
    with filesystem.open_file(path) as stream:
        table: pa.Table = pq.ParquetFile(stream).read()
    return [_PLACE.sub("", repr(_plain(row))) for row in table.to_pylist()]


def _plain(row: dict[str, Any]) -> list[tuple[str, Any]]:
    return sorted((name, value.isoformat() if hasattr(value, "isoformat") else value) for name, value in row.items())
