"""What a writer of record files holds in memory, and what it asks of a file system."""

import io
from pathlib import Path

import pyarrow as pa
import pytest

from dissectors import records
from pipelines.storage import record_files
from pipelines.storage.record_files import RecordWriter

MOST = 1_000_000  # bytes
SITES = 30


def findings(site: str) -> pa.RecordBatch:
    schema = records.schema("findings")
    row = {field.name: None for field in schema} | {"site": site, "detail": "x" * 20_000, "time": 0}
    return pa.RecordBatch.from_pylist([row], schema=schema)


def test_rows_that_wait_for_a_row_group_are_bounded_however_many_files_there_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "_WAITING_BYTES", MOST)
    writer = RecordWriter(str(tmp_path), "part")
    before = pa.total_allocated_bytes()
    for n in range(20 * SITES):
        writer.write("findings", findings(f"site-{n % SITES}"))
    assert pa.total_allocated_bytes() - before < 4 * MOST
    written = writer.close()
    assert sum(file.rows for file in written) == 20 * SITES
    assert len(written) == SITES


def test_a_file_system_whose_files_do_not_know_their_place_gets_records(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Written(io.RawIOBase):  # as of a client of HDFS
        def __init__(self, path: str) -> None:
            self.file = Path(path).open("wb")  # noqa: SIM115

        def writable(self) -> bool:
            return True

        def write(self, data: bytes) -> int:  # type: ignore[override]
            return self.file.write(data)

        def close(self) -> None:
            self.file.close()
            super().close()

    (tmp_path / "findings").mkdir()
    monkeypatch.setattr("pipelines.storage.filesystem.create", Written)
    writer = RecordWriter(str(tmp_path), "part")
    writer.write("findings", findings("site"))
    (file,) = writer.close()
    assert writer.sizes == {file.path: (tmp_path / file.path).stat().st_size}
