"""The table `upgrades` and its command: what brokers of a later release no longer understand, by client and library."""

import json
import struct
from pathlib import Path

import pytest

import brokerscope
from dissectors.errors import UsageError
from dissectors.kafka.releases import refused_since, releases
from pipelines.answers.upgrade import targets
from tests.captures import captures, needs_captures
from tests.commands import SAMPLES, attempt, run
from tests.kafka.wire import request, response
from tests.pipelines.test_changes import captured, fetched
from tests.wires import CLIENT, Side

EMPTY = struct.pack(">i", 0)
OTHER, THIRD = Side("10.0.0.7", 43000), Side("10.0.0.8", 44000)


def metadata(id_: int, client: str, version: int = 1) -> tuple[bytes, bytes]:
    """An exchange that asks where topics are: no release refuses its version."""
    answer = EMPTY + struct.pack(">i", 1) + EMPTY
    return request(3, version, id_, EMPTY, client), response(3, version, id_, answer)


def named(id_: int, software: str, version: str, client: str) -> tuple[bytes, bytes]:
    """An exchange in which a client names its library."""
    asked = b"".join(bytes([len(each) + 1]) + each.encode() for each in (software, version)) + b"\0"
    answer = struct.pack(">h", 0) + b"\1" + struct.pack(">i", 0) + b"\0"
    return request(18, 3, id_, asked, client), response(18, 3, id_, answer)


def test_a_client_that_sends_what_a_release_removed_is_named_with_it(tmp_path: Path) -> None:
    path = captured(tmp_path, (CLIENT, [fetched(1, 0, "old"), fetched(2, 1, "old")]), (OTHER, [metadata(1, "new")]))
    (row,) = brokerscope.open(path).upgrades("4.0").to_pylist()
    known = {"client_ip": "10.0.0.2", "client_id": "old", "api": "Fetch", "version": 0}
    told = {"until": "3.9", "breaks_at": "4.0", "requests": 2, "software": None, "speaks": "2.0"}
    assert row.items() >= (known | told).items()
    assert row["last_time"] == max(brokerscope.open(path).exchanges.where(api="Fetch").arrow()["time"].to_pylist())
    assert brokerscope.open(path).upgrades("3.9").num_rows == 0
    shown = attempt("upgrade", path, "--to", "4.0", "-q")
    assert shown.exit_code == 1
    assert shown.stdout.startswith("ready for kafka 4.0: 1 of 2 libraries on 1 of 2 hosts\n")
    run("upgrade", path, "--to", "3.9", "-q")


def test_a_library_is_the_one_that_the_client_names_else_the_one_whose_id_it_has(tmp_path: Path) -> None:
    path = captured(
        tmp_path,
        (CLIENT, [named(1, "my-library", "1.2", "app"), metadata(2, "app")]),
        (OTHER, [metadata(1, "kafka-python-2.0.2")]),
        (THIRD, [metadata(1, "billing")]),
    )
    rows = brokerscope.open(path).sql(
        "select client_id, software, software_version, software_from, speaks from t_upgrades order by client_id"
    )
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("app", "my-library", "1.2", "told", "2.4"),
        ("billing", None, None, None, "2.0"),
        ("kafka-python-2.0.2", "kafka-python", "2.0.2", "client id", "2.0"),
    ]


def test_a_connection_on_which_a_client_names_nothing_is_of_the_latest_library_that_it_names(tmp_path: Path) -> None:
    first, second, third = (Side("10.0.0.2", port) for port in (43001, 43002, 43003))
    older = [named(1, "my-library", "1.2", "app"), metadata(2, "app")]
    newer = [named(1, "my-library", "1.3", "app")]
    path = captured(tmp_path, (first, older), (second, newer), (third, [fetched(1, 0, "app")]))
    rows = brokerscope.open(path).sql(
        "select software, software_version, api, requests from t_upgrades order by software_version"
    )
    assert [tuple(row.values()) for row in rows.to_pylist()] == [
        ("my-library", "1.2", None, 2), ("my-library", "1.3", "Fetch", 1),
    ]  # fmt: skip


def test_what_brokers_send_each_other_is_no_clients(tmp_path: Path) -> None:
    stop = request(5, 0, 1, struct.pack(">iibi", 1, 1, 0, 0), "1"), response(5, 0, 1, struct.pack(">hi", 0, 0))
    path = captured(tmp_path, (CLIENT, [stop]), (OTHER, [fetched(1, 0, "broker-1-fetcher-0")]))
    assert attempt("upgrade", path, "-q").stdout == "No client to judge in these captures.\n"


@pytest.mark.parametrize("asked", ["9.9", "iggy=4.0", "=4.0", "kafka"])
def test_a_release_that_nobody_knows_is_refused_with_the_known_ones(asked: str) -> None:
    with pytest.raises(UsageError, match=r"there are kafka: 2\.0, .*; pulsar: v0, .*; iggy: 0\.0\.4"):
        targets(asked)
    run("upgrade", SAMPLES / "iggy-vsr.pcap", "--to", asked, code=2)


def test_a_release_is_of_the_protocols_that_know_it() -> None:
    assert targets("4.0") == {"kafka": "4.0"}
    assert targets("4.0, iggy=0.7") == {"kafka": "4.0", "iggy": "0.7"}
    assert targets(None)["kafka"] == releases()[-1]


def test_kafka_4_refuses_what_its_proposal_names_and_serves_the_rest() -> None:
    refused = {key: [*versions.each()] for key, versions in refused_since("4.0").items()}
    assert refused[0] == [0, 1, 2]  # KIP-896: Produce
    assert refused[1] == [0, 1, 2, 3]  # Fetch
    assert refused[2] == [0]  # ListOffsets
    assert 3 not in refused  # Metadata
    assert refused_since("3.9") == {}


def test_a_server_of_another_era_of_iggy_understands_what_did_not_change() -> None:
    capture = brokerscope.open(SAMPLES / "iggy-messages.pcap")
    rows = capture.sql("select * from t_upgrades").to_pylist()
    told = {(row["until"], row["breaks_at"], row["speaks"], row["software"], row["software_version"]) for row in rows}
    assert told == {("0.7", "vsr-0.9", "iggy-0.7", None, "0.8.0")}
    sent = capture.sql("select api, count(*) as n from exchanges where api <> 'PING' group by api").to_pylist()
    assert {row["api"]: row["requests"] for row in rows}.items() <= {row["api"]: row["n"] for row in sent}.items()
    assert {"LOGIN_USER", "POLL_MESSAGES", "SEND_MESSAGES"} <= {row["api"] for row in rows}  # whose framing is another


def test_rows_go_out_as_json(tmp_path: Path) -> None:
    path = captured(tmp_path, (CLIENT, [fetched(1, 0, "old")]))
    (row,) = map(json.loads, attempt("upgrade", path, "-f", "json", "-q").stdout.splitlines())
    assert (row["api"], row["version"], row["breaks_at"]) == ("Fetch", 0, "4.0")


@needs_captures
@pytest.mark.parametrize(
    ("name", "library", "breaking"),
    [
        ("old-sarama0820", "sarama", {"Fetch", "ListOffsets", "Produce"}),
        ("no-kafka-old", None, {"Fetch", "ListOffsets", "Produce", "OffsetCommit"}),
        ("java43-admin", "apache-kafka-java", set()),
        ("rdk-codecs", "confluent-kafka-python", set()),
        ("kpy-admin", "kafka-python", set()),
    ],
)
def test_clients_whose_library_is_known_are_judged_by_what_they_send(
    name: str, library: str | None, breaking: set[str]
) -> None:
    capture = brokerscope.open(captures("kafka") / f"{name}.pcap")
    assert {row["api"] for row in capture.upgrades("4.0").to_pylist()} == breaking
    every = capture.sql("select distinct software from t_upgrades where software_from = 'told'").to_pylist()
    assert {row["software"] for row in every} == ({library} if library else set())
