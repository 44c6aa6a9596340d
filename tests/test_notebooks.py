"""Notebooks of the documentation say what they say when they are run now."""

import json
from pathlib import Path

import pytest

from tests import notebooks


@pytest.mark.parametrize("path", sorted(notebooks.FOLDER.glob("*.ipynb")), ids=lambda path: path.name)
def test_outputs_of_a_notebook_are_those_of_its_cells(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("matplotlib")
    monkeypatch.setenv("MPLBACKEND", "agg")
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    kept = [cell["outputs"] for cell in cells if cell["cell_type"] == "code"]
    assert notebooks.texts(notebooks.run(path)) == notebooks.texts(kept)
    assert any("image/png" in one.get("data", {}) for cell in kept for one in cell)
