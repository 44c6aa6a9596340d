"""The notebook for platform engineers runs from its first cell to its last one."""

import runpy
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_a_notebook_runs(spark: Any, path: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    said = runpy.run_path(str(path), run_name="__main__")
    assert said["exchanges"] > 0
    assert not [*tmp_path.glob("brokerscope-notebook-*")], "it leaves nothing behind"


def test_a_notebook_is_of_cells_that_jupyter_knows() -> None:
    for path in NOTEBOOKS:
        heads = [line for line in path.read_text(encoding="utf-8").splitlines() if line.startswith("# %%")]
        assert set(heads) == {"# %%", "# %% [markdown]"}
