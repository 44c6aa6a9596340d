"""What the last run made of a lake's records: it stands as long as another run would make the same.

LAKE/analysis.json  "made_of": the records, what was asked of the tables, and the code that made them
                    "records": the records alone
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pipelines import report
from pipelines.storage import filesystem, lake_files
from pipelines.storage.code_version import code_version
from pipelines.storage.layout import CASES_FILE, TABLE_FOLDER, read_about
from pipelines.tables.registry import TABLES

if TYPE_CHECKING:
    from pipelines.spark.catalog import Catalog


class Fingerprints(NamedTuple):
    """What tables and page were made of, by digest, as LAKE/analysis.json has it."""

    made_of: str
    records: str


def fingerprints(store: str, by: Sequence[str], bucket_us: int | None, catalog: Catalog | None) -> Fingerprints:
    """Fingerprints that are equal where two runs would make equal tables of a lake. Arguments: those of `analyze`."""
    records = lake_files.fingerprint(store)
    made_of = (records, code_version("pipelines"), tuple(by), bucket_us, catalog)
    return Fingerprints(hashlib.sha256(repr(made_of).encode()).hexdigest(), records)


def is_behind(store: str) -> bool:
    """Whether a lake has other records than its tables and page were made of; False of what is no lake."""
    records = lake_files.fingerprint(store)
    return bool(records) and read_about(store).get("records") != records


def standing(store: str, wanted: Fingerprints) -> dict[str, Any] | None:
    """What LAKE/analysis.json says, where it has these fingerprints and nothing is missing; else None."""
    about = read_about(store)
    if about.get("made_of") != wanted.made_of:
        return None
    tables = {path.partition("/")[0] for path in filesystem.find(filesystem.join(store, TABLE_FOLDER))}
    files = {f"{name}.{kind}" for name in TABLES for kind in ("parquet", "csv")}
    there = {CASES_FILE, report.PAGE} <= set(filesystem.folders(store, ""))
    return about if there and files <= tables else None
