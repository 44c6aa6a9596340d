"""`extract`: some packets as a capture of their own."""

import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors
from tests.commands import SAMPLES, attempt, run

CORRUPTED = str(SAMPLES / "pulsar-corrupted.pcap")
REFUSED, LOSS, TLS = (str(SAMPLES / name) for name in ("kafka-refused.pcap", "kafka-loss.pcap", "kafka-tls.pcapng"))


def extracted(tmp_path: Path, *arguments: str) -> str:
    out = str(tmp_path / "out.pcapng")
    run("extract", *arguments, "-o", out, "-q")
    return out


def rows(path: str, table: str = "exchanges") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = dissectors.dissect(path, [table])[table].to_pylist()
    return found


def same(row: dict[str, Any]) -> tuple[Any, ...]:
    """What an exchange says, without where it lies."""
    left_out = ("site", "exchange_id", "request_file", "request_packet", "response_file", "response_packet")
    return tuple(str(value) for name, value in row.items() if name not in left_out)


def test_a_topic_brings_the_whole_conversations_that_name_it(tmp_path: Path) -> None:
    found = rows(extracted(tmp_path, REFUSED, "--topic", "err-e"))
    names = {row["connection"] for row in rows(REFUSED) if "err-e" in (row["topics"] or [])}
    wanted = Counter(same(row) for row in rows(REFUSED) if row["connection"] in names)
    assert Counter(map(same, found)) == wanted
    assert len(names) < len({row["connection"] for row in rows(REFUSED)})


def test_a_group_a_client_and_a_connection_choose_conversations_too(tmp_path: Path) -> None:
    row = next(row for row in rows(REFUSED) if row["group"] and row["client_id"])
    for option, value in (
        ("--group", row["group"]),
        ("--client", row["client_id"]),
        ("--connection", row["connection"]),
    ):
        found = rows(extracted(tmp_path, REFUSED, option, value))
        assert row["connection"] in {each["connection"] for each in found}
        assert 0 < len(found) < len(rows(REFUSED))


def test_of_an_exchange_alone_only_its_own_packets_are_there(tmp_path: Path) -> None:
    for row in rows(REFUSED)[5:9]:
        by_id = rows(extracted(tmp_path, REFUSED, "--exchange", row["exchange_id"], "--packets-only"))
        place = f"kafka-refused.pcap:{row['request_packet']}"
        by_packet = rows(extracted(tmp_path, REFUSED, "--exchange", place, "--packets-only"))
        for found in (by_id, by_packet):
            assert [(each["api"], each["correlation_id"]) for each in found] == [(row["api"], row["correlation_id"])]
            assert found[0]["total_ns"] == row["total_ns"]


def test_a_time_keeps_its_packets_only(tmp_path: Path) -> None:
    times = sorted(row["time"] for row in rows(REFUSED))
    middle = times[len(times) // 2]
    out = extracted(tmp_path, REFUSED, "--since", f"{middle:%Y-%m-%dT%H:%M:%S.%f}")
    assert min(row["start_time"] for row in rows(out, "connections")) >= middle


def test_a_finding_brings_the_conversations_in_which_it_was_made(tmp_path: Path) -> None:
    kind = rows(CORRUPTED, "findings")[0]["kind"]
    names = {row["connection"] for row in rows(CORRUPTED, "findings") if row["kind"] == kind}
    found = rows(extracted(tmp_path, CORRUPTED, "--finding", kind), "connections")
    assert {row["connection"] for row in found} == names


def test_without_a_condition_every_packet_is_there_in_time_order(tmp_path: Path) -> None:
    out = extracted(tmp_path, REFUSED, LOSS)
    assert sum(len(rows(path)) for path in (REFUSED, LOSS)) == len(rows(out))


def test_secrets_of_a_capture_go_with_its_packets(tmp_path: Path) -> None:
    out = extracted(tmp_path, TLS, "--protocol", "kafka")
    assert Counter(map(same, rows(out))) == Counter(map(same, rows(TLS)))


def test_comments_are_those_of_annotate(tmp_path: Path) -> None:
    raw = Path(extracted(tmp_path, REFUSED, "--topic", "err-e", "--comments")).read_bytes()
    assert b"MESSAGE_TOO_LARGE" in raw


def test_an_output_that_is_an_input_is_refused_and_stays_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.pcap"
    shutil.copy(REFUSED, path)
    run("extract", path, "-o", path, code=2)
    assert path.read_bytes() == Path(REFUSED).read_bytes()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--connection", ":1"], "no connection :1 in these captures"),
        (["--exchange", "nothing-c1"], "no exchange nothing-c1 in these captures"),
        (["--exchange", "kafka-refused.pcap:99999"], "there is no TCP packet 99999"),
        (["--finding", "gapp"], "no kind of finding is called 'gapp'"),
        (["--finding", "gap"], "no finding gap; there are"),
        (["--comments", "--sanitise"], "comments hold names"),
    ],
)
def test_what_is_not_there_is_one_clear_line_and_no_file(tmp_path: Path, arguments: list[str], said: str) -> None:
    out = tmp_path / "out.pcapng"
    result = attempt("extract", REFUSED, *arguments, "-o", out, "-q")
    assert result.exit_code in (2, 3)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
    assert not out.exists()


def test_a_topic_that_does_not_occur_is_said_with_the_nearest_that_does(tmp_path: Path) -> None:
    out = tmp_path / "out.pcapng"
    said, refused = run("extract", REFUSED, "--topic", "nope", "-o", out, "-q", code=2).splitlines()
    assert said == "brokerscope: no topic 'nope' in these captures; did you mean err-nope?"
    assert "nothing to extract" in refused
    assert not out.exists()


def test_packets_of_two_capture_points_are_not_mixed(tmp_path: Path) -> None:
    for name in ("client", "broker"):
        (tmp_path / name).mkdir()
        shutil.copy(REFUSED, tmp_path / name / "a.pcap")
    assert "2 capture points" in run("extract", tmp_path, "--topic", "err-e", "-o", tmp_path / "out.pcapng", code=2)


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_tshark_reads_an_extract(tmp_path: Path) -> None:
    out = extracted(tmp_path, REFUSED, "--topic", "err-e")
    read = subprocess.run(["tshark", "-r", out, "-Y", "kafka"], capture_output=True, text=True, check=True)
    assert len(read.stdout.splitlines()) > 10
