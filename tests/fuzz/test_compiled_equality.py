"""Compiled modules and their sources give the same records of the same captures, however mutated."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import dissectors
from dissectors import records
from dissectors.compiling import loading
from dissectors.errors import InputError
from tests.fuzz import cases

ROOT = Path(__file__).parent.parent.parent
SEED = 20_261_125
CASES = 40


def rows(folder: Path) -> dict[str, str]:
    """The records of the captures in a folder, by name: all tables as JSON, or the error."""
    found = {}
    for path in sorted(folder.iterdir()):
        try:
            tables = dissectors.dissect([str(path)], tables=tuple(records.TABLES), full=True, payloads=True, jobs=1)
            found[path.name] = json.dumps([table.to_pylist() for table in tables.values()], default=str)
        except InputError as error:
            found[path.name] = str(error)
    return found


@pytest.mark.skipif(not dissectors.STATE.is_compiled, reason=f"{dissectors.STATE}")
def test_compiled_modules_give_the_records_that_their_sources_give(tmp_path: Path) -> None:
    for number in range(CASES):
        (tmp_path / f"{number}.pcap").write_bytes(cases.make(SEED, number).data)
    program = (
        "import json, sys, pathlib\n"
        "from tests.fuzz.test_compiled_equality import rows\n"
        "print(json.dumps(rows(pathlib.Path(sys.argv[1]))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=ROOT, env=os.environ | {loading.VARIABLE: "1"}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == rows(tmp_path)
