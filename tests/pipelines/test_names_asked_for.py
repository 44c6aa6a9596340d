"""Names that people ask for: older ones are understood, and one that does not occur is said with the nearest."""

from pathlib import Path

import pyarrow as pa
import pytest

from dissectors.iggy import tables
from dissectors.kafka import errors as kafka_errors
from dissectors.pulsar import errors as pulsar_errors
from dissectors.session.protocols import error_meaning
from pipelines.sql.occurring import NamesSeen
from pipelines.sql.older_names import todays_name, with_todays_names
from pipelines.sql.selection import Selection
from tests.commands import SAMPLES, attempt, run

SAMPLE = str(SAMPLES / "kafka-refused.pcap")


def dissect(*arguments: str) -> tuple[list[str], str]:
    """(lines of stdout, stderr)"""
    result = attempt("dissect", SAMPLE, *arguments)
    assert result.exit_code == 0, result.stderr
    return result.stdout.splitlines(), result.stderr


@pytest.mark.parametrize(
    ("older", "today"),
    [
        ("Offsets", "ListOffsets"),
        ("GroupCoordinator", "FindCoordinator"),
        ("consumermetadata", "FindCoordinator"),
        ("NOT_LEADER_FOR_PARTITION", "NOT_LEADER_OR_FOLLOWER"),
        ("NOT_COORDINATOR_FOR_GROUP", "NOT_COORDINATOR"),
        ("Produce", "Produce"),
    ],
)
def test_an_older_name_of_an_api_or_error_is_understood(older: str, today: str) -> None:
    assert todays_name(older) == today


def test_an_older_name_is_understood_in_a_condition_only_where_it_is_compared_with_an_api_or_error() -> None:
    where = "name = 'NOT_LEADER_FOR_PARTITION' OR api IN ('Offsets', 'Fetch') AND topic = 'Offsets'"
    assert with_todays_names(where) == (
        "name = 'NOT_LEADER_OR_FOLLOWER' OR api IN ('ListOffsets', 'Fetch') AND topic = 'Offsets'"
    )


def test_an_api_is_found_by_its_older_name() -> None:
    rows, _ = dissect("--api", "GroupCoordinator", "--columns", "api", "-f", "csv", "-q")
    assert set(rows) == {"api", '"FindCoordinator"'}


def test_a_name_that_does_not_occur_is_said_with_the_nearest() -> None:
    _, said = dissect("--api", "Prodce", "--topic", "err-*")
    assert "no api 'Prodce' in these captures; did you mean Produce?" in said
    assert "no topic" not in said


def test_a_name_that_occurs_is_not_said_to_be_missing_where_other_conditions_exclude_its_rows() -> None:
    rows, said = dissect("--api", "Produce", "--slower-than", "1h", "-f", "csv")
    assert len(rows) == 1
    assert "no api" not in said


def test_names_are_looked_for_in_all_tables_that_are_written(tmp_path: Path) -> None:
    _, said = dissect("-t", "batches", "-t", "errors", "-o", str(tmp_path / "out"), "--topic", "err-x", "-f", "csv")
    assert "no topic 'err-x'" in said


def test_values_of_lists_count_and_wildcards_are_not_judged() -> None:
    seen = NamesSeen(Selection(topic="orders,order*,refunds"))
    seen.add(pa.record_batch({"topics": [["orders", "payments"], None]}))
    assert list(seen.missing()) == ["no topic 'refunds' in these captures; there are orders, payments"]


KNOWN_ERRORS = {
    "kafka": [(code, kafka_errors.error(code).name) for code in kafka_errors.known_codes()],
    "pulsar": [*pulsar_errors.NAMES.items(), *pulsar_errors.VALIDATION.items()],
    "iggy": [(code, one.name) for code, meanings in tables.statuses().items() for one in meanings],
}


@pytest.mark.parametrize("protocol", KNOWN_ERRORS)
def test_every_error_code_has_a_meaning_in_one_line(protocol: str) -> None:
    assert KNOWN_ERRORS[protocol]
    for code, name in KNOWN_ERRORS[protocol]:
        meaning = error_meaning(protocol, code, name)
        assert meaning, (code, name)
        assert "\n" not in meaning
        assert not meaning.endswith(".")
    assert error_meaning(protocol, 9999, None) is None


def test_a_code_that_had_two_names_has_a_meaning_for_each() -> None:
    assert "access token" in (error_meaning("iggy", 51, "PersonalAccessTokenAlreadyExists") or "")
    assert "not connected" in (error_meaning("iggy", 51, "NotConnected") or "")


def test_an_error_of_no_protocol_has_no_meaning() -> None:
    assert error_meaning(None, 3, "InvalidCommand") is None


@pytest.mark.parametrize("command", ["groups", "transactions", "audit", "info", "forensics", "top"])
def test_every_command_says_which_topic_does_not_occur_and_does_not_speak_of_the_whole_capture(command: str) -> None:
    result = attempt(command, SAMPLE, "--topic", "nosuch")
    assert result.exit_code == 0, result.stderr
    assert "no topic 'nosuch' in these captures" in result.stderr
    assert "in these captures" not in result.stdout


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [("--server", "9099", "no server '9099' in these captures"), ("--protocol", "iggy", "; there are kafka")],
)
def test_a_server_or_protocol_that_does_not_occur_is_said(option: str, value: str, said: str) -> None:
    assert said in attempt("summary", SAMPLE, option, value).stderr
    assert not attempt("summary", SAMPLE, "--server", "9092,10.71.0.1:9092").stderr


def test_forensics_of_a_part_counts_nothing_of_the_rest() -> None:
    capture = str(Path(SAMPLE).with_name("kafka-codecs.pcap"))
    whole, part = (run("forensics", capture, *more) for more in ([], ["--api", "Produce"]))
    assert "lz4 header" in whole
    assert "lz4" not in part  # which is counted over everything


@pytest.mark.parametrize(
    ("name", "said"), [("exchange", "did you mean exchanges?"), ("nosuch", "there are exchanges, batches, ")]
)
def test_a_table_that_is_none_is_said_with_the_nearest(name: str, said: str) -> None:
    assert f"no table '{name}'; {said}" in run("sql", SAMPLE, f"select * from {name}", code=2)
