"""Single messages by what they hold, and what one client did."""

from base64 import b64decode
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from pipelines.formats import hosts
from tests.commands import SAMPLES, objects, run

SUBSCRIPTIONS = str(SAMPLES / "pulsar-subscriptions.pcap")
MADE, CODECS, TRANSACTIONS = (str(SAMPLES / f"kafka-{name}.pcap") for name in ("made", "codecs", "transactions"))


@pytest.fixture(autouse=True)
def _no_names_are_left() -> Iterator[None]:
    yield
    hosts.use({})


def found(*arguments: str) -> list[dict[str, Any]]:
    return objects("messages", *arguments)


@pytest.mark.parametrize("capture", [MADE, TRANSACTIONS, CODECS])
def test_a_message_is_found_by_its_key_header_offset_and_text(capture: str) -> None:
    every = [row for row in found(capture, "--payloads", "--head", "10000") if row["key"] and row["offset"] is not None]
    one = every[len(every) // 2]
    key = b64decode(one["key"]).decode()
    place = (one["file"], one["packet"], one["stream_offset"], one["offset"])

    def places(*asked: str) -> list[tuple[Any, ...]]:
        rows = found(capture, *asked, "--head", "10000")
        return [(row["file"], row["packet"], row["stream_offset"], row["offset"]) for row in rows]

    assert place in places("--key", key)
    assert place in places("--grep", f"^{key}$")
    only = ["--topic", one["topic"], "--partition", str(one["partition"]), "--offset", str(one["offset"])]
    assert place in places(*only)
    assert set(places("--key", "no such key")) == set()


def test_the_messages_of_an_entry_of_pulsar_are_found_by_its_position_in_their_order() -> None:
    every = [row["position"] for row in found(SUBSCRIPTIONS, "--head", "10000")]
    batched = [position for position in every if position and position.count(":") == 2]
    ledger, entry, _ = batched[0].split(":")
    asked = found(SUBSCRIPTIONS, "--offset", f"{ledger}:{entry}")
    assert len(asked) == sum(position.startswith(f"{ledger}:{entry}:") for position in batched) > 1
    for rows in (every, [row["position"] for row in asked]):
        for one, after in pairwise(position for position in rows if position):
            if one.split(":")[:2] == after.split(":")[:2]:
                assert int(one.split(":")[2]) < int(after.split(":")[2]) or after.endswith(":0")
    assert {row["position"] for row in found(SUBSCRIPTIONS, "--offset", batched[1])} == {batched[1]}


def test_a_message_is_found_by_a_header() -> None:
    assert [row["client_ip"] for row in found(MADE, "--header", "trace=201")] == ["10.74.0.13"]
    assert len(found(MADE, "--header", "trace", "--head", "1000")) == len(found(MADE, "--head", "1000"))
    assert found(MADE, "--header", "nothing") == []


def test_keys_and_values_are_shown_only_where_they_are_asked_for() -> None:
    assert "key-201" not in run("messages", MADE, "--key", "key-201")
    assert not {"key", "value", "headers"} & found(MADE, "--key", "key-201")[0].keys()
    assert "key-201" in run("messages", MADE, "--key", "key-201", "--payloads")


def test_a_pattern_that_is_none_is_wrong_usage() -> None:
    assert "no regular expression" in run("messages", MADE, "--grep", "(", code=2)


def test_a_client_is_told_by_its_id_its_address_or_its_name(tmp_path: Path) -> None:
    names = tmp_path / "hosts"
    names.write_text("10.74.0.11 pay-1.example\n")
    by_id = run("client", "billing", MADE)
    assert "10.74.0.11, client ids: billing" in by_id
    assert run("client", "10.74.0.11", MADE) == by_id == run("client", MADE, "billing")
    named = run("client", "pay-1", MADE, "--hosts", str(names))
    assert named.startswith("10.74.0.11 (pay-1.example), client ids: billing")
    (page,) = objects("client", "billing", MADE)
    assert {row["key"] for row in page["apis"]} == {"Produce", "SaslHandshake", "SaslAuthenticate"}
    assert {verdict["kind"] for verdict in page["verdicts"]} >= {"throttled"}
    assert "no client nobody" in run("client", "nobody", MADE, code=3)


def test_a_page_says_what_changed_since_an_earlier_out(tmp_path: Path) -> None:
    before, after = tmp_path / "before", tmp_path / "after"
    for out, capture in ((before, CODECS), (after, MADE)):
        run("analyze", capture, "-o", str(out), "--engine", "local", "-q")
    assert "Compared with" not in (after / "report.html").read_text()
    run("report", str(after), "--against", str(before), "-q")
    page = (after / "report.html").read_text()
    assert f"Compared with {before}." in page
    assert "New clients: " in page
    assert "billing" in page.partition("New clients: ")[2].partition("</p>")[0]
    assert "not a local folder" in run("report", str(after), "--against", str(tmp_path), code=3)
