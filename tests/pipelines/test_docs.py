"""The pages that are written from code are current."""

from pathlib import Path

import pytest

from pipelines.document import PAGES

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("name", PAGES)
def test_the_page_is_current(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"
