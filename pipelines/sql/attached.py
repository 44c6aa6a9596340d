"""Files of the user's own that a query may read beside records."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import pyarrow as pa

from dissectors.errors import InputError

READERS: Mapping[str, tuple[str, str]] = {
    ".csv": ("pyarrow.csv", "read_csv"),
    ".tsv": ("pyarrow.csv", "read_csv"),
    ".json": ("pyarrow.json", "read_json"),
    ".jsonl": ("pyarrow.json", "read_json"),
    ".ndjson": ("pyarrow.json", "read_json"),
    ".parquet": ("pyarrow.parquet", "read_table"),
}
"""Suffix of a file name -> module and function that read it."""


def read(path: str) -> pa.Table:
    """The rows of a local file. Raises InputError where it cannot be read, or its name does not say what it is."""
    suffix = Path(path).suffix.lower()
    if suffix not in READERS:
        raise InputError(f"{path}: unknown file type; supported are {', '.join(READERS)}")
    name, function = READERS[suffix]
    module = import_module(name)
    more = {"parse_options": module.ParseOptions(delimiter="\t")} if suffix == ".tsv" else {}
    try:
        return getattr(module, function)(path, **more)
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be read: {error}") from None
