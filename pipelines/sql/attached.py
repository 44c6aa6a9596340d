"""Files of the user's own that a query may read beside records."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa

from dissectors.errors import InputError


def _csv(path: str) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(path)


def _tsv(path: str) -> pa.Table:
    from pyarrow import csv

    return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter="\t"))


def _json_lines(path: str) -> pa.Table:
    from pyarrow import json

    return json.read_json(path)


def _parquet(path: str) -> pa.Table:
    from pyarrow import parquet

    return parquet.read_table(path)


READERS: Mapping[str, Callable[[str], pa.Table]] = {
    ".csv": _csv,
    ".tsv": _tsv,
    ".json": _json_lines,
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".parquet": _parquet,
}
"""Suffix of a file name -> what reads it."""


def read(path: str) -> pa.Table:
    """The rows of a local file. Raises InputError where it cannot be read, or its name does not say what it is."""
    reader = READERS.get(Path(path).suffix.lower())
    if reader is None:
        raise InputError(f"{path}: unknown file type; supported are {', '.join(READERS)}")
    try:
        return reader(path)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
