"""Code between releases has a version of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.storage import code_version as module
from pipelines.storage.code_version import code_version, product_version

SOURCE = "VALUE = 1\n"


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    code_version.cache_clear()
    yield
    code_version.cache_clear()


def package(folder: Path, modules: dict[str, str]) -> Path:
    for name, source in modules.items():
        path = folder / "some_decoders" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source)
    return folder


@pytest.mark.parametrize(
    "other",
    [
        {"__init__.py": "", "within/__init__.py": "", "within/states.py": "VALUE = 2\n"},
        {"__init__.py": "", "within/__init__.py": "", "within/state.py": SOURCE},
        {"__init__.py": "", "within/__init__.py": "", "within/states.py": SOURCE, "more.py": ""},
    ],
    ids=["changed", "renamed", "added"],
)
def test_other_code_of_the_same_version_is_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: dict[str, str]
) -> None:
    first = {"__init__.py": "", "within/__init__.py": "", "within/states.py": SOURCE}
    found = []
    for name, modules in (("a", first), ("b", first), ("c", other)):
        code_version.cache_clear()
        folder = package(tmp_path / name, modules)
        monkeypatch.setattr(module, "files", folder.joinpath)
        found.append(code_version("some_decoders"))
    assert found[0] == found[1] != found[2]
    assert all(version.startswith(product_version()) for version in found)
