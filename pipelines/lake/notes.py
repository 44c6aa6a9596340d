"""Findings about the captures of a lake as files: damaged, not readable, gone."""

from __future__ import annotations

import secrets as random
from collections.abc import Collection

from dissectors.findings import finding
from dissectors.rows.sink import to_batch
from pipelines.storage import filesystem
from pipelines.storage.lake_files import Manifest
from pipelines.storage.layout import RECORD_FOLDER
from pipelines.storage.record_files import RecordWriter


def report(after: Manifest, staging: str, tables: Collection[str]) -> None:
    """Write them anew as rows of `findings`, if that is one of the tables, and enter the files into the manifest."""
    writer = RecordWriter(filesystem.join(staging, RECORD_FOLDER), f"notes-{random.token_hex(8)}")
    problems = after.problems()
    if problems and "findings" in tables:
        writer.write("findings", to_batch("findings", [finding(None, *problem) for problem in problems], []))
    after.notes = writer.close()
