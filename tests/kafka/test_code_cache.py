"""Summarisers that were compiled ahead are those that would be made now, or are not used."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest

from dissectors.kafka import body_summary, code_cache, precompile, schema
from tests.kafka.wire import any_body

SOME = [("FetchRequest", 12), ("FetchResponse", 4), ("MetadataResponse", 9), ("ProduceRequest", 3)]


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache of its own, filled."""
    monkeypatch.setattr(code_cache, "FILE", tmp_path / "cache" / "summaries")
    code_cache._kept.cache_clear()
    precompile.main()
    yield code_cache.FILE
    code_cache._kept.cache_clear()


def test_every_version_of_every_message_is_kept(kept: Path) -> None:
    for name in schema.messages():
        message = schema.message(name)
        if message.kind in ("request", "response"):
            assert all(code_cache.find(name, version) is not None for version in message.versions.each())
    assert code_cache.find("FetchRequest", 99) is None


@pytest.mark.parametrize(("name", "version"), SOME)
def test_a_kept_summariser_finds_what_a_new_one_finds(kept: Path, name: str, version: int) -> None:
    code = code_cache.find(name, version)
    assert code is not None
    for seed in range(5):
        body = any_body(name, version, seed)
        for end in (len(body), len(body) // 2):
            assert body_summary.revived(code)(body, 0, end) == body_summary.written(name, version)(body, 0, end)


@pytest.mark.parametrize("kept_before", [False, True])
def test_a_traceback_shows_the_lines_of_generated_code(kept: Path, kept_before: bool) -> None:
    name, version = "MetadataResponse", 9
    if kept_before:
        body_summary.summariser.cache_clear()
    summarise = body_summary.summariser(name, version) if kept_before else body_summary.written(name, version)
    with pytest.raises(TypeError) as caught:
        summarise(b"", "no index", 0)  # type: ignore[arg-type]
    shown = "".join(traceback.format_exception(caught.value))
    assert f'File "summary of {name} v' in shown
    assert "throttle, n1 = s_" in shown


@pytest.mark.parametrize("damage", [b"", b"\0", b"not marshal", b"(\x02\x00\x00\x00NN"])
def test_a_damaged_cache_is_an_empty_one(kept: Path, damage: bytes) -> None:
    kept.write_bytes(damage)
    code_cache._kept.cache_clear()
    assert code_cache.find("FetchRequest", 12) is None


def test_code_made_from_another_version_of_the_sources_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_cache.find("FetchRequest", 12) is not None
    monkeypatch.setattr(code_cache, "_stamp", lambda path: (1, 2))
    assert code_cache.find("FetchRequest", 12) is None
    code_cache._kept.cache_clear()
    assert code_cache._kept() == ({}, [])
