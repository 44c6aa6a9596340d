"""What the last run made of a lake's records: it stands as long as another run would make the same.

LAKE/analysis.json  "made_of": the records, what was asked of the tables, and the version that made them
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from pipelines import lake, report, storage
from pipelines.report.load import ABOUT, CASES_FILE, TABLE_FOLDER
from pipelines.tables import TABLES, Ask
from pipelines.tables.dialect import DuckDB

if TYPE_CHECKING:
    from pipelines.catalog import Catalog


def product_version() -> str:
    """Of this package; "" where it is not installed."""
    try:
        return version("brokerscope")
    except PackageNotFoundError:
        return ""


def fingerprint(store: str, by: Sequence[str], bucket_us: int | None, catalog: Catalog | None) -> str:
    """The same where a run would make the same of a lake. Arguments as of `analyze`."""
    queries = {name: table.query(DuckDB(), Ask(tuple(by))) for name, table in TABLES.items()}
    made_of = (lake.fingerprint(store), product_version(), tuple(by), bucket_us, catalog, queries)
    return hashlib.sha256(repr(made_of).encode()).hexdigest()


def standing(store: str, made_of: str) -> dict[str, Any] | None:
    """What LAKE/analysis.json says, where it is of this fingerprint and nothing is missing; else None."""
    try:
        about = json.loads(storage.read(storage.join(store, ABOUT)) or b"{}")
    except ValueError:
        return None
    if not isinstance(about, dict) or about.get("made_of") != made_of:
        return None
    tables = {path.partition("/")[0] for path in storage.find(storage.join(store, TABLE_FOLDER))}
    wanted = {f"{name}.{kind}" for name in TABLES for kind in ("parquet", "csv")}
    there = {CASES_FILE, report.PAGE} <= set(storage.folders(store, ""))
    return about if there and wanted <= tables else None
