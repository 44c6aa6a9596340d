"""Summarisers that were compiled ahead are those that would be made now, or are not used."""

from __future__ import annotations

import os
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


def test_code_made_from_other_sources_or_tables_is_not_used(kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert code_cache.find("FetchRequest", 12) is not None
    monkeypatch.setattr(code_cache, "_digest", lambda path: b"other")
    assert code_cache.find("FetchRequest", 12) is None
    code_cache._kept.cache_clear()
    assert code_cache._kept() == ({}, [])


def test_a_table_of_the_same_size_and_time_but_other_content_is_noticed(
    kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = code_cache._table("FetchRequest")
    other = tmp_path / table.name
    text = table.read_bytes()
    other.write_bytes(text.replace(b"MaxWaitMs", b"MaxWaitms"))
    os.utime(other, ns=(table.stat().st_atime_ns, table.stat().st_mtime_ns))
    assert other.stat().st_size == len(text)
    assert other.read_bytes() != text
    monkeypatch.setattr(code_cache, "_table", lambda name: other)
    assert code_cache.find("FetchRequest", 12) is None


@pytest.mark.parametrize("others", [0o020, 0o002])
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_others_may_write_is_not_run(kept: Path, which: str, others: int) -> None:
    at = kept if which == "file" else kept.parent
    at.chmod(at.stat().st_mode | others)
    assert code_cache.find("FetchRequest", 12) is None


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")
@pytest.mark.parametrize("which", ["file", "folder"])
def test_what_belongs_to_somebody_else_is_not_run(kept: Path, which: str) -> None:
    os.chown(kept if which == "file" else kept.parent, 12345, -1)
    assert code_cache.find("FetchRequest", 12) is None


def test_what_is_kept_is_used_whatever_the_mask_of_new_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(code_cache, "FILE", tmp_path / "wide" / "cache" / "summaries")
    before = os.umask(0)
    try:
        precompile.main()
    finally:
        os.umask(before)
    code_cache._kept.cache_clear()
    assert code_cache.find("FetchRequest", 12) is not None
    code_cache._kept.cache_clear()
    assert [path.name for path in code_cache.FILE.parent.iterdir()] == ["summaries"]
