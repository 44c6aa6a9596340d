"""Threads of DuckDB read in one open file of fsspec's at once."""

import io
import os
import time
from concurrent.futures import ThreadPoolExecutor

import duckdb
import fsspec
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.storage import filesystem
from pipelines.storage.threaded_reads import ThreadedFile

DATA = bytes(range(256)) * 16


class Slow(io.BytesIO):
    """A file in which others have time to seek elsewhere before it is read."""

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        there = super().seek(offset, whence)
        time.sleep(0.001)
        return there


def test_each_thread_reads_where_it_has_sought() -> None:
    file = ThreadedFile(Slow(DATA))

    def wrong(start: int) -> int:
        file.seek(start)
        first, second = file.read(3), file.read(4)
        return int(first + second != DATA[start : start + 7])

    with ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(wrong, range(0, 400, 7))) == 0


def test_places_are_counted_from_the_beginning_the_end_and_where_one_is() -> None:
    file = ThreadedFile(io.BytesIO(DATA))
    assert file.seek(-2, os.SEEK_END) == len(DATA) - 2
    assert file.read() == DATA[-2:]
    file.seek(10)
    assert file.seek(5, os.SEEK_CUR) == file.tell() == 15
    assert file.read(1) == DATA[15:16]


def test_duckdb_finds_and_reads_files_by_url() -> None:
    fs = fsspec.filesystem("memory")
    try:
        for number in range(3):
            with filesystem.create(f"memory://lake/site=a [b]/{number}.parquet") as stream:
                pq.write_table(pa.table({"n": range(10_000)}), stream, row_group_size=1000)
        with duckdb.connect() as db:
            db.register_filesystem(filesystem.file_system("memory://lake"))
            rows = db.sql("select count(*), sum(n) from read_parquet('memory://lake/**/*.parquet')").fetchall()
        assert rows == [(30_000, 3 * sum(range(10_000)))]
    finally:
        fs.store.clear()
