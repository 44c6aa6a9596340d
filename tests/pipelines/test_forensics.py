"""What `analyze` says of bad checksums is what `brokerscope forensics` says."""

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from dissectors.forensics import Investigation, report
from dissectors.options import Options
from pipelines.analyze import EngineName, Execution, analyze
from pipelines.tables.integrity import CASE_COLUMNS, place
from tests.commands import attempt
from tests.forensics import scene
from tests.pipelines.conftest import SAMPLES, Analysed
from tests.wires import T0, Side, pcap

HOUR_NS = 3_600_000_000_000


def local(paths: list[str], options: Options) -> list[dict[str, Any]]:
    investigation = Investigation(paths, options)
    investigation.run()
    return [report.as_json(case) for case in investigation.cases()]


def cases_of(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "forensics.jsonl").read_text().splitlines()]


def test_analyze_writes_what_forensics_says(analysed: Analysed, samples: list[str]) -> None:
    cases = cases_of(analysed.out)
    assert [case["diagnosis"]["pattern"] for case in cases] == ["single_bit"]
    assert cases == local(samples, Options())


def test_each_bad_batch_has_its_case_beside_it(analysed: Analysed) -> None:
    (case,) = cases_of(analysed.out)
    (row,) = pq.read_table(analysed.out / "tables" / "corrupt.parquet").to_pylist()
    assert row["broken"] == place(case["diagnosis"]["locations"][0])
    assert (row["pattern"], row["proven"], row["broke"], row["certainty"]) == (
        "single_bit",
        True,
        "before_tcp",
        "certain",
    )
    assert {column.name for column in CASE_COLUMNS} <= set(row)


@pytest.fixture
def broken_twice(tmp_path: Path) -> list[str]:
    """A connection in two files, broken in both: a bit of what is produced, a burst of zeros in what is fetched."""
    packets = list(scene.kafka(100).packets)
    produced, at = scene.find(packets, b"1:The quick")
    packets[produced] = scene.broken(packets[produced], {at: 2}, repaired=True)
    fetched, at = scene.find(packets, b"2:The quick", 1)
    changes = {at + i: packets[fetched].data[at + i] for i in range(8)}
    packets[fetched] = scene.broken(packets[fetched], changes, repaired=False)
    middle = (produced + fetched) // 2
    files = [tmp_path / "a.pcap", tmp_path / "b.pcap"]
    for path, part in zip(files, (packets[:middle], packets[middle:]), strict=True):
        path.write_bytes(pcap(part, nano=True))
    return [str(path) for path in files]


def test_a_topic_that_a_capture_names_does_nothing_to_the_terminal(tmp_path: Path) -> None:
    packets = [p._replace(data=p.data.replace(b"orders", b"\x1b[2J\n1")) for p in scene.kafka().packets]
    produced, at = scene.find(packets, b"1:The quick")
    packets[produced] = scene.broken(packets[produced], {at: 2}, repaired=True)
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(packets, nano=True))
    done = attempt("forensics", path)
    assert done.exit_code == 1
    assert all(line.isprintable() for line in done.stdout.splitlines())
    assert r"\x1b[2J\n1, partition 3" in done.stdout


def test_display_filters_stay_whole_in_a_narrow_terminal(broken_twice: list[str]) -> None:
    done = attempt("forensics", *broken_twice, columns=40)
    filters = [line.strip() for line in done.stdout.splitlines() if "frame.number" in line]
    assert len(filters) == 4
    assert all(line.endswith("}") for line in filters)


def analysed_into(out: Path, paths: list[str], engine: EngineName) -> list[dict[str, Any]]:
    """What `analyze` says of the bad checksums in these captures."""
    out.mkdir()
    analyze(paths, out, Options(), engine)
    return cases_of(out)


@pytest.mark.parametrize("engine", ["spark", "local"])
def test_cases_over_several_files_are_those_of_the_local_command(
    spark: Any, broken_twice: list[str], tmp_path: Path, engine: EngineName
) -> None:
    cases = analysed_into(tmp_path / "out", broken_twice, engine)
    assert [case["role"] for case in cases] == ["produce", "consume"]
    assert cases == local(broken_twice, Options())


def test_an_update_reads_captures_again_only_for_what_is_new(
    broken_twice: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.jobs import forensics

    looked_into: list[int] = []
    real = forensics._suspects

    def counted(*args: Any) -> Any:
        looked_into.append(len(args[-1]))
        return real(*args)

    monkeypatch.setattr(forensics, "_suspects", counted)
    later = shutil.copy(SAMPLES / "iggy-messages.pcap", tmp_path / "later.pcap")
    for name, expected in (("first", 1), ("second", 2), ("third", 2)):
        files = {"first": broken_twice[:1], "second": broken_twice, "third": [*broken_twice, str(later)]}[name]
        (tmp_path / name).mkdir()
        execution = Execution(store=str(tmp_path / "lake"), update=True)
        analyze(files, tmp_path / name, Options(), "local", execution=execution)
        assert cases_of(tmp_path / name) == local(files, Options()), name
        assert len(cases_of(tmp_path / name)) == expected
    assert looked_into[0] == 1
    assert len(looked_into) == 2, "the third run has no bad checksum that is new"


def test_an_update_reads_only_captures_from_the_time_of_the_bad_connection_again(
    broken_twice: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pipelines.jobs import forensics

    again: list[list[int]] = []
    real = forensics._suspects

    def noted(*args: Any) -> Any:
        again.append(list(args[2]))
        return real(*args)

    monkeypatch.setattr(forensics, "_suspects", noted)
    earlier = tmp_path / "0-hours-before.pcap"
    packets = scene.Scene(client=Side("10.0.0.9", 4000)).packets
    earlier.write_bytes(pcap([packet._replace(time=packet.time - 2 * HOUR_NS) for packet in packets], nano=True))
    files = [str(earlier), *broken_twice]
    for name, some in (("first", files[:1]), ("second", files)):
        (tmp_path / name).mkdir()
        analyze(
            some, tmp_path / name, Options(), "local", execution=Execution(store=str(tmp_path / "lake"), update=True)
        )
    assert cases_of(tmp_path / "second") == local(files, Options()) != []
    assert again == [[1, 2]]


@pytest.mark.parametrize(
    ("span", "is_read"),
    [
        ((T0, T0 + HOUR_NS), True),
        ((T0 - HOUR_NS, T0 - 1), True),  # not long before
        ((T0 - 5 * HOUR_NS, T0 - 4 * HOUR_NS), True),  # an earlier connection of the same endpoints counts too
        ((T0 - 3 * HOUR_NS, T0 - 2 * HOUR_NS), False),
        ((T0 + 2 * HOUR_NS, T0 + 3 * HOUR_NS), False),
        (None, True),  # it is not known
    ],
)
def test_a_capture_is_read_again_for_a_bad_batch_if_its_endpoints_may_be_in_it(
    span: tuple[int, int] | None, is_read: bool
) -> None:
    from pipelines.jobs.forensics import _concerned

    def life(turned: bool, start_ns: int) -> dict[str, Any]:
        a, b = (("10.0.0.2", 9092), ("10.0.0.1", 4000)) if turned else (("10.0.0.1", 4000), ("10.0.0.2", 9092))
        start = datetime.fromtimestamp(start_ns / 1e9, UTC)
        ends = {"client_ip": a[0], "client_port": a[1], "server_ip": b[0], "server_port": b[1]}
        return {"site": "day", **ends, "start_time": start, "end_time": start + timedelta(hours=1)}

    lives = [life(False, T0), life(True, T0 - 5 * HOUR_NS)]
    spans = {} if span is None else {"day/a.pcap": span}
    files = ["other/b.pcap", "day/a.pcap"]
    assert _concerned(files, Options(), lives[:1], lives, spans) == ([1] if is_read else [])
    assert _concerned(files, Options(), lives[:1], [], spans) == [1], "a connection without a row"


def test_where_all_is_well_nothing_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pipelines.jobs import forensics

    def never(*args: object) -> None:
        raise AssertionError("read again")

    monkeypatch.setattr(forensics, "_suspects", never)
    (tmp_path / "a.pcap").write_bytes(pcap(scene.kafka().packets, nano=True))
    assert analysed_into(tmp_path / "out", [str(tmp_path / "a.pcap")], "local") == []
