"""TLS key logs that pcapng files carry. They go to the decoding tasks and nowhere else."""

from __future__ import annotations

from dissectors.capture.reader import Reader
from dissectors.errors import InputError
from dissectors.limits import Limits


def carries_secrets(path: str) -> bool:
    """Whether a file is of a format that can hold a key log."""
    try:
        reader = Reader(path, 0, Limits())
        blocks = reader.raw_blocks()
        blocks.close()  # type: ignore[attr-defined]
    except InputError:
        return False
    return reader.format == "pcapng"


def secrets_in(path: str) -> list[bytes]:
    """The key logs in a file."""
    try:
        reader = Reader(path, 0, Limits())
    except InputError:
        return []
    for _ in reader.raw_blocks():
        pass
    return [bytes(secret) for secret in reader.notes.secrets]
