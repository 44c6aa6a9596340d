"""Code between releases has a version of its own."""

from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from pipelines.storage.code_version import code_state, code_version, product_version

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
        monkeypatch.setattr(resources, "files", folder.joinpath)
        found.append(code_version("some_decoders"))
    assert found[0] == found[1] != found[2]
    assert all(version.startswith(product_version()) for version in found)


def test_code_on_this_machine_is_another_when_a_source_is_written_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = package(tmp_path, {"__init__.py": "", "within/__init__.py": "", "within/states.py": SOURCE})
    monkeypatch.syspath_prepend(folder)
    states = []
    for source in (SOURCE, SOURCE.replace("1", "2"), f"{SOURCE}\n"):
        code_state.cache_clear()
        (folder / "some_decoders" / "within" / "states.py").write_text(source)
        states.append(code_state("some_decoders"))
    code_state.cache_clear()
    assert len({*states, code_state("some_decoders")}) == 3
