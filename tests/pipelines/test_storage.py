"""Outputs on any file system: written, moved, read and removed alike."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines.storage import filesystem
from pipelines.storage.filesystem import StorageError


@pytest.fixture(params=["path", "file:", "local:", "memory:"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """A folder as a path, as a file URL, through fsspec's local file system, and in its memory."""
    import fsspec

    urls = {"path": str(tmp_path), "file:": tmp_path.as_uri(), "local:": f"local://{tmp_path}"}
    yield urls.get(request.param, "memory://outputs")
    fsspec.filesystem("memory").store.clear()


def test_what_is_written_is_read_again(root: str) -> None:
    path = filesystem.join(root, "a", "b.json")
    assert filesystem.read(path) is None
    filesystem.write(path, b"one")
    filesystem.write(path, b"two")
    assert filesystem.read(path) == b"two"
    with filesystem.open_file(path) as stream:
        assert stream.read() == b"two"


def test_a_move_may_be_done_twice_but_needs_something_to_move(root: str) -> None:
    filesystem.write(filesystem.join(root, "new/x"), b"x")
    for _ in range(2):
        filesystem.move(root, [("new/x", "kept/deep/x")])
    assert filesystem.read(filesystem.join(root, "kept/deep/x")) == b"x"
    with pytest.raises(StorageError):
        filesystem.move(root, [("new/y", "kept/y")])


def test_what_is_removed_twice_is_gone(root: str) -> None:
    filesystem.write(filesystem.join(root, "a/x"), b"x")
    filesystem.write(filesystem.join(root, ".run-1/y"), b"y")
    assert filesystem.folders(root, ".run-") == [".run-1"]
    for _ in range(2):
        filesystem.remove(root, ["a/x"])
        filesystem.remove_folder(filesystem.join(root, ".run-1"))
    assert filesystem.read(filesystem.join(root, "a/x")) is None
    assert filesystem.folders(root, ".run-") == []


def test_files_of_a_folder_are_uploaded_to_their_places(root: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    source = tmp_path_factory.mktemp("source")
    (source / "deep").mkdir()
    (source / "deep" / "x").write_bytes(b"x")
    filesystem.upload(source, root, [source / "deep" / "x"])
    assert filesystem.read(filesystem.join(root, "deep/x")) == b"x"


def test_an_unknown_file_system_is_an_error_in_a_line() -> None:
    with pytest.raises(StorageError, match="nowhere"):
        filesystem.write("nowhere://bucket/x", b"")


@pytest.mark.parametrize("count", [0, 1, 7, 64, 65, 6_401, 20_000])
def test_what_is_done_for_each_file_comes_in_their_order(count: int) -> None:
    assert filesystem.each(lambda n: n * 2, range(count)) == [n * 2 for n in range(count)]


def test_few_files_are_looked_at_side_by_side() -> None:
    together = threading.Barrier(8, timeout=60)
    assert len(filesystem.each(lambda n: together.wait(), range(8))) == 8
