"""The version stands in pyproject.toml, and what names it elsewhere agrees."""

import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]


def test_the_changelog_says_what_is_in_this_version() -> None:
    assert f"## {VERSION}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()


def test_the_version_stands_in_no_module() -> None:
    for package in ("brokerscope", "dissectors", "pipelines"):
        for path in (ROOT / package).rglob("*.py"):
            assert f'"{VERSION}"' not in path.read_text(encoding="utf-8"), path


def test_a_tag_of_this_commit_names_this_version() -> None:
    try:
        done = subprocess.run(
            ["git", "tag", "--points-at", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is no checkout")
    for tag in done.stdout.split():
        assert not tag.startswith("v") or tag == f"v{VERSION}"
