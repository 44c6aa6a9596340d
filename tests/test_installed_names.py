"""A wheel installs all packages below `brokerscope`: no other name is taken from a user's environment."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dissectors.compiling.installed import as_installed, write_tree

ROOT = Path(__file__).parent.parent
SAMPLE = ROOT / "samples" / "kafka-refused.pcap"
NAMES = "import sys; print(sorted({name.partition('.')[0] for name in sys.modules} & {'dissectors', 'pipelines'}))"


@pytest.mark.parametrize(
    ("source", "installed"),
    [
        ("from dissectors import STATE\n", "from brokerscope.dissectors import STATE\n"),
        ("    from pipelines.sql.words import (\n", "    from brokerscope.pipelines.sql.words import (\n"),
        ("import dissectors\n", "from brokerscope import dissectors\n"),
        (
            "from cython.cimports.dissectors.wire.crc32c_of import crc32c_of\n",
            "from cython.cimports.brokerscope.dissectors.wire.crc32c_of import crc32c_of\n",
        ),
        ('import_module(f"dissectors.{name}")', 'import_module(f"brokerscope.dissectors.{name}")'),
        ('code_version("pipelines")', 'code_version("brokerscope.pipelines")'),
        ("dissectors.STATE.is_compiled", "dissectors.STATE.is_compiled"),
        ('"dissectors/_proto"', '"dissectors/_proto"'),
        ("from other.dissectors import x\n", "from other.dissectors import x\n"),
    ],
)
def test_imports_and_texts_name_the_packages_where_they_are_installed(source: str, installed: str) -> None:
    assert as_installed(source) == installed


def test_an_import_that_cannot_be_moved_is_refused() -> None:
    with pytest.raises(ValueError, match=r"import dissectors\.api: write `from … import`"):
        as_installed("import dissectors.api\n")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("installed")
    write_tree(ROOT, folder)
    return folder


def run(tree: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_packages_of_the_repository_are_not_installed(tree: Path) -> None:
    assert sorted(path.name for path in tree.iterdir()) == ["brokerscope", "pyspark_brokerscope", "pyspark_pcap"]


@pytest.mark.parametrize(
    "program",
    [
        f"import brokerscope; cap = brokerscope.open({str(SAMPLE)!r}); len(cap.exchanges.arrow()), cap.verdicts()",
        f"from brokerscope.pipelines.cli import app\ntry: app(['summary', {str(SAMPLE)!r}])\nexcept SystemExit: pass",
        "import pyspark_brokerscope, pyspark_pcap",
        "import brokerscope, pickle; pickle.loads(pickle.dumps(brokerscope.Limits()))",
    ],
)
def test_nothing_imports_them_by_the_names_of_the_repository(tree: Path, program: str) -> None:
    assert run(tree, "-c", f"{program}\n{NAMES}").splitlines()[-1] == "[]"


def test_what_is_installed_answers_as_the_repository_does(tree: Path, tmp_path: Path) -> None:
    run(
        tree,
        "-m",
        "brokerscope",
        "analyze",
        str(SAMPLE),
        "-o",
        str(tmp_path / "one"),
        "--update",
        "--engine",
        "local",
        "-q",
    )
    rows = "select * from exchanges order by all"
    ours = run(ROOT, "-m", "brokerscope", "sql", str(SAMPLE), rows, "-f", "csv")
    assert run(tree, "-m", "brokerscope", "sql", str(tmp_path / "one"), rows, "-f", "csv").count("\n") == ours.count(
        "\n"
    )


def test_an_archive_for_workers_brings_them_where_they_are(tree: Path, tmp_path: Path) -> None:
    run(tree, "-m", "brokerscope", "package", "-o", str(tmp_path / "workers.tar.gz"))
    unpacked = tmp_path / "unpacked"
    unpacked.mkdir()
    subprocess.run(["tar", "-xzf", str(tmp_path / "workers.tar.gz"), "-C", str(unpacked)], check=True)
    assert sorted(path.name for path in unpacked.iterdir()) == ["brokerscope", "pyspark_brokerscope", "pyspark_pcap"]
    said = run(
        unpacked, "-c", f"import brokerscope; print(len(brokerscope.dissect({str(SAMPLE)!r})['exchanges']))\n{NAMES}"
    )
    assert said.splitlines() == ["37", "[]"]
