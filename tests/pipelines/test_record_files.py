"""Where record files lie, and what their places say of their rows."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import brokerscope
from dissectors.options import Options
from dissectors.run import Run
from pipelines.jobs.records import stream_to_records
from pipelines.storage import record_files
from pipelines.storage.record_files import may_hold, place

DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("day", "since", "holds"),
    [(20_000, 20_000 * DAY_NS, True), (20_000, 20_001 * DAY_NS - 1, True), (20_000, 20_001 * DAY_NS, False),
     (20_001, 20_000 * DAY_NS, True), (None, 20_000 * DAY_NS, True)],
)  # fmt: skip
def test_a_file_may_hold_rows_of_its_day_and_one_without_a_day_any(day: int | None, since: int, holds: bool) -> None:
    assert may_hold(place("exchanges", "2020-01-01~1", day, "part-0"), since) == holds


@pytest.mark.parametrize(("most", "files"), [(64, 3), (2, 1)])
def test_many_capture_points_share_the_files_of_a_day(
    most: int, files: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_files, "MANY_SITES", most)
    capture = Path(__file__).parents[2] / "samples" / "kafka-refused.pcap"
    for name in "abc":
        (tmp_path / f"{name}.pcap").write_bytes(capture.read_bytes())
    captures = [str(tmp_path / f"{name}.pcap") for name in "abc"]
    stream_to_records(Run(captures, Options(site="file")), str(tmp_path))
    made = sorted((tmp_path / "records" / "exchanges").iterdir())
    assert len(made) == files
    rows = pa.concat_tables([pq.read_table(path).drop_columns(["date"]) for path in made])
    known = brokerscope.dissect(captures, "exchanges", site="file")["exchanges"]
    assert sorted(map(repr, rows.to_pylist())) == sorted(map(repr, known.to_pylist()))
