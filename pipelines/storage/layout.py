"""Names of what `analyze` leaves in its output folder OUT, and a guard for what later commands read back from there."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dissectors.errors import InputError
from pipelines.storage import outputs

SCHEMA = 2
"""Of names in outputs: raised where one goes or means something else. In 1, 0.1.0, some verdicts were findings."""
RECORD_FOLDER = "records"
TABLE_FOLDER = "tables"
LAKE_FOLDER = ".lake"  # of an OUT that `analyze --update` keeps
ABOUT = "analysis.json"
HOSTS = "hosts"  # the key in it of names of machines, as captures or the user told them: address -> name
CASES_FILE = "forensics.jsonl"  # one object per bad checksum, as `brokerscope forensics --format json` writes them
_READ_BACK = (RECORD_FOLDER, TABLE_FOLDER, LAKE_FOLDER, ABOUT, CASES_FILE)


def refuse_read_back(path: str | Path, out: str | Path) -> None:
    """Raise OutputIsInputError if a local output path would overwrite a part of OUT that later commands read back."""
    outputs.refuse_within(path, (Path(out) / part for part in _READ_BACK))


def is_analysis(path: str) -> bool:
    """Whether a path is a folder that `analyze` wrote, perhaps only its records."""
    folder = Path(path)
    return (folder / RECORD_FOLDER).is_dir() and ((folder / ABOUT).is_file() or (folder / LAKE_FOLDER).is_dir())


def single_analysis(captures: Sequence[str]) -> bool:
    """Whether what was named is one folder that `analyze` wrote, alone."""
    return len(captures) == 1 and is_analysis(captures[0])


def read_about(out: str) -> dict[str, Any]:
    """What OUT/analysis.json says; nothing where it is missing or damaged. out: a path or URL."""
    from pipelines.storage import filesystem

    try:
        found = json.loads(filesystem.read(filesystem.join(out, ABOUT)) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def names_of(out: str) -> dict[str, str]:
    """Names of machines that OUT keeps: address -> name; nothing where it keeps none."""
    found = read_about(out).get(HOSTS)
    return {ip: name for ip, name in found.items() if isinstance(name, str)} if isinstance(found, dict) else {}


def refuse_newer(out: str) -> None:
    """Raise InputError where OUT was written by a release whose names mean other things than those of this one."""
    about = read_about(out)
    if isinstance(found := about.get("schema"), int) and found > SCHEMA:
        raise InputError(f"{out}: was written by brokerscope {about.get('version')}, which this release cannot read")
