"""Skimmers that were compiled ahead are those that would be made now, or are not used."""

from __future__ import annotations

from pathlib import Path

import pytest

from dissectors.kafka import precompile, schema, shelf, skim
from tests.kafka.wire import any_body

SOME = [("FetchRequest", 12), ("FetchResponse", 4), ("MetadataResponse", 9), ("ProduceRequest", 3)]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shelf of its own, filled."""
    monkeypatch.setattr(shelf, "FILE", tmp_path / "cache" / "skimmers")
    shelf._kept.cache_clear()
    precompile.main()
    yield shelf.FILE
    shelf._kept.cache_clear()


def test_every_version_of_every_message_is_kept(kept: Path) -> None:
    for name in schema.messages():
        message = schema.message(name)
        if message.kind in ("request", "response"):
            assert all(shelf.find(name, version) is not None for version in message.versions.each())
    assert shelf.find("FetchRequest", 99) is None


@pytest.mark.parametrize(("name", "version"), SOME)
def test_a_kept_skimmer_finds_what_a_new_one_finds(kept: Path, name: str, version: int) -> None:
    code = shelf.find(name, version)
    assert code is not None
    for seed in range(5):
        body = any_body(name, version, seed)
        for end in (len(body), len(body) // 2):
            assert skim.revived(code)(body, 0, end) == skim.written(name, version)(body, 0, end)


@pytest.mark.parametrize("damage", [b"", b"\0", b"not marshal", b"(\x02\x00\x00\x00NN"])
def test_a_damaged_shelf_is_an_empty_one(kept: Path, damage: bytes) -> None:
    kept.write_bytes(damage)
    shelf._kept.cache_clear()
    assert shelf.find("FetchRequest", 12) is None


def test_code_made_from_another_version_of_the_sources_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shelf.find("FetchRequest", 12) is not None
    monkeypatch.setattr(shelf, "_stamp", lambda path: (1, 2))
    assert shelf.find("FetchRequest", 12) is None
    shelf._kept.cache_clear()
    assert shelf._kept() == ({}, [])
