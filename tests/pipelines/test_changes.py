"""The table `changes`: who changed what, with what was before, and how the broker answered."""

import json
import struct
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import brokerscope
from dissectors.records import schema
from pipelines.answers.aggregates import aggregate
from pipelines.tables.table import RECORDS
from tests.captures import captures, needs_captures
from tests.commands import SAMPLES, objects, run
from tests.kafka.wire import request, response, text
from tests.pipelines import fabricate
from tests.wires import CLIENT, T0, Side, Talk, pcap

ORDERS = text("orders")
MS = 1_000_000
Exchange = tuple[bytes, bytes]
Client = tuple[Side, list[Exchange]]


def captured(folder: Path, *clients: Client) -> Path:
    """A capture of clients of a broker, one after the other, each with its exchanges."""
    packets, time = [], T0
    for side, script in clients:
        talk = Talk(side, handshake=False, time=time, step=MS)
        for asked, answer in script:
            talk.send(0, asked).send(1, answer)
            talk.time += 8 * MS
        packets += talk.packets
        time = talk.time
    path = folder / "made.pcap"
    path.write_bytes(pcap(packets))
    return path


def made(folder: Path, *clients: Client) -> list[dict[str, Any]]:
    """The changes of clients."""
    rows: list[dict[str, Any]] = brokerscope.open(captured(folder, *clients)).changes().to_pylist()
    return rows


def altered(id_: int, value: str, code: int = 0, client: str = "tool") -> Exchange:
    """An exchange that sets retention.ms of the topic orders."""
    config = struct.pack(">i", 1) + text("retention.ms") + b"\0" + text(value)
    asked = struct.pack(">i", 1) + b"\2" + ORDERS + config + b"\0"
    answer = struct.pack(">iihh", 0, 1, code, -1) + b"\2" + ORDERS
    return request(44, 0, id_, asked, client), response(44, 0, id_, answer)


def described(id_: int, value: str) -> Exchange:
    """An exchange in which a broker says what retention.ms of the topic orders is."""
    asked = struct.pack(">i", 1) + b"\2" + ORDERS + struct.pack(">i", -1)
    config = struct.pack(">i", 1) + text("retention.ms") + text(value) + b"\0\0\0"
    answer = struct.pack(">iihh", 0, 1, 0, -1) + b"\2" + ORDERS + config
    return request(32, 0, id_, asked), response(32, 0, id_, answer)


def committed(id_: int, offset: int, generation: int, client: str = "tool") -> Exchange:
    """An exchange that commits an offset of the group g: as a member, or with generation -1 as nobody in it."""
    asked = text("g") + struct.pack(">i", generation) + text("m-1" if generation >= 0 else "")
    asked += struct.pack(">qi", -1, 1) + ORDERS + struct.pack(">iiq", 1, 0, offset) + b"\xff\xff"
    answer = struct.pack(">i", 1) + ORDERS + struct.pack(">iih", 1, 0, 0)
    return request(8, 2, id_, asked, client), response(8, 2, id_, answer)


def deleted(id_: int, client: str = "tool") -> Exchange:
    """An exchange that deletes the topic orders."""
    asked = struct.pack(">i", 1) + ORDERS + struct.pack(">i", 1000)
    return request(20, 1, id_, asked, client), response(20, 1, id_, struct.pack(">ii", 0, 1) + ORDERS + b"\0\0")


def fetched(id_: int, offset: int, client: str, code: int = 0) -> Exchange:
    """An exchange that reads the topic orders from an offset and gets nothing, or an error."""
    asked = struct.pack(">iiii", -1, 500, 1, 1) + ORDERS + struct.pack(">iiqi", 1, 0, offset, 1 << 20)
    answer = struct.pack(">i", 1) + ORDERS + struct.pack(">iihqi", 1, 0, code, offset, 0)
    return request(1, 0, id_, asked, client), response(1, 0, id_, answer)


def logged_in(name: str, password: str) -> list[Exchange]:
    raw = f"\0{name}\0{password}".encode()
    return [
        (request(17, 1, 1, text("PLAIN")), response(17, 1, 1, struct.pack(">hi", 0, 0))),
        (request(36, 0, 2, struct.pack(">i", len(raw)) + raw), response(36, 0, 2, struct.pack(">hhi", 0, -1, 0))),
    ]


def test_a_setting_shows_what_it_was_before_whoever_said_so(tmp_path: Path) -> None:
    other = Side("10.0.0.3", 41000)
    rows = made(tmp_path, (CLIENT, [described(1, "604800000"), altered(2, "1000")]), (other, [altered(1, "2000")]))
    assert [(row["client_ip"], row["detail"], row["before"], row["result"]) for row in rows] == [
        ("10.0.0.2", "retention.ms=1000", "604800000", "ok"),
        ("10.0.0.3", "retention.ms=2000", "1000", "ok"),
    ]
    assert {(row["action"], row["thing"], row["subject"], row["topic"]) for row in rows} == {
        ("altered", "topic", "orders", "orders")
    }


def test_what_a_broker_refused_is_told_with_its_error_and_changes_nothing(tmp_path: Path) -> None:
    rows = made(tmp_path, (CLIENT, [altered(1, "1"), altered(2, "-7", 40), altered(3, "2")]))
    assert [(row["before"], row["result"]) for row in rows] == [(None, "ok"), ("1", "INVALID_CONFIG"), ("1", "ok")]


def test_the_name_that_the_connection_logged_in_with_is_told_and_no_password(tmp_path: Path) -> None:
    script = [*logged_in("alice", "hush-hush"), altered(3, "1")]
    path = captured(tmp_path, (CLIENT, script))
    (row,) = brokerscope.open(path).changes().to_pylist()
    assert row["principal"] == "alice"
    shown = run("changes", path, "-f", "json", "-q")
    assert "alice" in shown
    assert "hush-hush" not in shown


def test_a_reset_of_offsets_is_a_change_and_the_commits_of_readers_are_none(tmp_path: Path) -> None:
    consumer = Side("10.0.0.4", 42000)
    reads = [fetched(1, 7, "reader"), committed(2, 7, -1, "reader")]
    assert made(tmp_path, (consumer, [*reads, fetched(3, 9, "reader"), committed(4, 9, -1, "reader")])) == []
    rows = made(tmp_path, (consumer, [committed(1, 50, 3, "reader")]), (CLIENT, [committed(1, 0, -1)]))
    assert [(row["client_id"], row["thing"], row["subject"], row["topic"], row["partition"]) for row in rows] == [
        ("tool", "offsets", "g", "orders", 0)
    ]
    assert (rows[0]["detail"], rows[0]["before"]) == ("offset=0", "50")


def test_a_change_without_an_answer_is_told_so(tmp_path: Path) -> None:
    path = captured(tmp_path, (CLIENT, [altered(1, "1"), (deleted(2)[0], b"")]))
    rows = brokerscope.open(path).changes().to_pylist()
    assert [(row["action"], row["result"]) for row in rows] == [("altered", "ok"), ("deleted", "no answer")]


def test_errors_and_verdicts_name_the_same_change_before_them(tmp_path: Path) -> None:
    other = Side("10.0.0.3", 41000)
    reads = [fetched(1, 0, "reader", 3), fetched(2, 0, "reader", 3)]
    capture = brokerscope.open(captured(tmp_path, (CLIENT, [altered(1, "1"), deleted(2, "cleaner")]), (other, reads)))
    (error,) = capture.sql("select * from t_errors").to_pylist()
    assert (error["name"], error["count"]) == ("UNKNOWN_TOPIC_OR_PARTITION", 2)
    assert error["changed_by"] == "cleaner on 10.0.0.2 deleted topic orders before, packet 4 of made.pcap."
    (detail,) = [one["detail"] for one in capture.verdicts() if one["kind"] == "errors"]
    assert detail.startswith(error["changed_by"])


def test_errors_name_no_change_that_came_later_or_is_of_another_sort(tmp_path: Path) -> None:
    other = Side("10.0.0.3", 41000)
    reads = [fetched(1, 0, "reader", 3), fetched(2, 0, "reader", 3)]
    capture = brokerscope.open(captured(tmp_path, (CLIENT, [altered(1, "1")]), (other, reads), (CLIENT, [deleted(2)])))
    (error,) = capture.sql("select * from t_errors").to_pylist()
    assert error["changed_by"] is None


@pytest.mark.parametrize("cut", range(0, 60, 7))
def test_bodies_that_end_early_are_no_traceback(tmp_path: Path, cut: int) -> None:
    asked, answer = altered(1, "1000")
    short = asked[: len(asked) - cut] if cut < len(asked) - 20 else asked
    framed = struct.pack(">i", len(short) - 4) + short[4:]
    made(tmp_path, (CLIENT, [altered(1, "5"), (framed, answer), altered(3, "6")]))


def test_options_choose_among_changes_by_what_these_say() -> None:
    sample = SAMPLES / "iggy-vsr.pcap"
    every = objects("changes", sample)
    some = objects("changes", sample, "--topic", "*dev-topic-new")
    assert some == [row for row in every if (row["topic"] or "").endswith("dev-topic-new")] != []
    assert {row["principal"] for row in some} == {"iggy"}  # the login names no topic
    late = every[len(every) // 2]["time"]
    assert objects("changes", sample, "--since", late) == [row for row in every if row["time"] >= late]
    assert run("changes", sample, "--topic", "no-such-topic") == "No change in what was asked for.\n"


def test_changes_go_into_a_file_in_the_format_of_its_name(tmp_path: Path) -> None:
    sample = SAMPLES / "iggy-vsr.pcap"
    out = tmp_path / "changes.csv"
    run("changes", sample, "-o", out)
    rows = out.read_text().splitlines()
    assert rows[0].replace('"', "").split(",")[:3] == ["time", "protocol", "client_ip"]
    assert len(rows) == 1 + len(objects("changes", sample))


def test_the_first_use_of_a_subscription_counts_and_again_when_it_was_deleted_since() -> None:
    what = ("subscribed", "subscribed", "deleted", "subscribed", "subscribed")
    events = [
        {
            "site": "s", "connection": f"c{n}", "incarnation": 0, "protocol": "pulsar", "kind": kind, "number": 0,
            "thing": "subscription", "topic": "t", "group": "g", "time": fabricate.START + timedelta(seconds=n),
            "file": "f", "packet": n,
        }
        for n, kind in enumerate(what)
    ]  # fmt: skip
    every = {name: schema(name).empty_table() for name in RECORDS}
    every["events"] = pa.Table.from_pylist(events, schema("events"))
    told = [(row["packet"], row["action"]) for row in aggregate(every, "changes").to_pylist()]
    assert told == [(0, "subscribed"), (2, "deleted"), (3, "created")]


@needs_captures
def test_what_an_administrator_of_kafka_did_is_all_there() -> None:
    rows = brokerscope.open(captures("kafka") / "java43-admin.pcap").changes().to_pylist()
    told = json.loads((captures("kafka") / "java43-admin.json").read_text())["requests"]
    changing = {name: count for name, count in told.items() if name.startswith(("CREATE_", "DELETE_", "ALTER_"))}
    seen: dict[str, set[str]] = {}
    for row in rows:
        name = "".join(f"_{letter}" if letter.isupper() else letter for letter in row["api"]).strip("_").upper()
        seen.setdefault(name, set()).add(row["exchange_id"])
    validated = {"CREATE_TOPICS": 1}  # a request that only asks whether it would be valid changes nothing
    assert {name: len(seen.get(name, ())) for name in changing} == {
        name: count - validated.get(name, 0) for name, count in changing.items()
    }
    of = {(row["thing"], row["action"], row["result"]) for row in rows}
    assert of >= {
        ("group", "deleted", "NON_EMPTY_GROUP"),
        ("offsets", "altered", "ok"),
        ("transaction", "altered", "ok"),
        ("partition", "altered", "ELECTION_NOT_NEEDED"),
        ("user", "deleted", "ok"),
    }


@needs_captures
@pytest.mark.parametrize("era", ["a4", "b5", "b6", "b8", "c9", "s0"])
def test_what_an_administrator_of_iggy_did_is_there_in_every_era(era: str) -> None:
    rows = brokerscope.open(captures("iggy") / f"{era}-dev-admin.pcap").changes().to_pylist()
    assert {(row["action"], row["thing"], row["subject"], row["result"]) for row in rows} >= {
        ("created", "user", "dev-user", "ok"),
        ("altered", "user", "dev-user", "ok"),
        ("deleted", "user", "dev-user-renamed", "ok"),
    }
    assert {row["principal"] for row in rows if row["subject"] == "dev-user"} == {"iggy"}
