"""Real brokers and clients: what they say of themselves is what the records say."""

import gzip
import ipaddress
import json
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

import dissectors
from tests.captures import captures as folder
from tests.captures import needs_captures, truths

FOLDER = folder("kafka")
TRUTHS = truths("kafka")
NAMES = [path.stem for path in TRUTHS]
pytestmark = needs_captures


@cache
def truth(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((FOLDER / f"{name}.json").read_text())
    return found


def captures(name: str) -> list[str]:
    files = truth(name).get("captures") or truth(name)["capture"]
    return [str(FOLDER / file) for file in (files if isinstance(files, list) else [files])]


@cache
def rows(name: str) -> dict[str, list[dict[str, Any]]]:
    keylog = truth(name).get("tls_keylog")
    tables = ("exchanges", "batches", "errors", "findings", "messages", "events")
    found = dissectors.dissect(captures(name), tables, payloads=True, keylog=str(FOLDER / keylog) if keylog else None)
    return {table: content.to_pylist() for table, content in found.items()}


def logged(name: str) -> Iterator[dict[str, Any]]:
    """The broker's own log of requests."""
    for path in FOLDER.glob(f"{name}.requests.jsonl*"):
        with gzip.open(path, "rt") as file:
            yield from map(json.loads, file)


@pytest.mark.parametrize("name", NAMES)
def test_every_checksum_of_an_intact_capture_holds_and_nothing_is_malformed(name: str) -> None:
    found = rows(name)
    assert found["exchanges"]
    assert {batch["verdict"] for batch in found["batches"]} <= {"ok", "unverifiable"}
    assert not [f for f in found["findings"] if f["kind"] in ("malformed_frame", "decompress_failed", "unknown_api")]


@pytest.mark.parametrize("name", [name for name in NAMES if not truth(name).get("partial")])
def test_every_request_in_the_brokers_log_is_an_exchange(name: str) -> None:
    wanted: Counter[tuple[Any, ...]] = Counter()
    for entry in logged(name):
        client = re.match(r"^.+:\d+-(.+):(\d+)-\d+-\d+$", entry.get("connection", ""))
        if client and not entry.get("isForwarded"):
            head = entry["requestHeader"]
            address = ipaddress.ip_address(client[1].strip("[]")).compressed
            wanted[
                address, int(client[2]), head["requestApiKey"], head["requestApiVersion"], head["correlationId"]
            ] += 1
    have = Counter(
        (
            ipaddress.ip_address(e["client_ip"]).compressed,
            e["client_port"],
            e["api_code"],
            e["version"],
            e["correlation_id"],
        )
        for e in rows(name)["exchanges"]
    )
    assert not wanted - have


@pytest.mark.parametrize("name", [name for name in NAMES if not truth(name).get("partial")])
def test_topics_hold_what_their_clients_produced_and_consumed(name: str) -> None:
    counts: Counter[tuple[str, str]] = Counter()
    for batch in rows(name)["batches"]:
        if batch["outcome"] != "error":
            counts[batch["role"], batch["topic"]] += batch["records"] or 0
    twice = truth(name).get("duplicates", {}).get("doubled_count", 0)  # stored again, by the log of the broker
    for topic, expected in (truth(name).get("topics") or {}).items():
        if expected.get("produced") is not None and not expected.get("produced_elsewhere"):
            assert counts["produce", topic] == expected["produced"] + twice, topic
        if expected.get("consumed"):
            assert counts["consume", topic] >= expected["consumed"], topic


@pytest.mark.parametrize("name", [name for name in NAMES if truth(name).get("messages_sample")])
def test_messages_are_what_the_application_saw(name: str) -> None:
    if truth(name).get("partial"):
        pytest.skip("the capture misses some of them")
    have = {(m["topic"], m["partition"], m["offset"]): m for m in rows(name)["messages"]}
    for sample in truth(name)["messages_sample"]:
        if "offset" not in sample or str(sample["value"]).startswith("("):
            continue  # reported by its size
        message = have[sample["topic"], sample["partition"], sample["offset"]]
        assert message["value"] == (None if sample["value"] is None else sample["value"].encode())
        assert message["key"] == (None if sample["key"] is None else sample["key"].encode())


def test_a_fetch_in_a_session_is_reported_with_its_topics() -> None:
    fetches = [e for e in rows("java43-longpoll")["exchanges"] if e["api"] == "Fetch"]
    assert len(fetches) > 5
    assert [e["topics"] for e in fetches] == [["tick-lp"]] * (len(fetches) - 1) + [[]]  # the last one ends the session
    assert any(e["long_poll"] for e in fetches)


def test_throttling_is_reported_and_is_no_latency() -> None:
    throttled = [e for e in rows("java43-quota")["exchanges"] if e["throttle_ms"]]
    assert max(e["throttle_ms"] for e in throttled if e["api"] == "Produce") == 1270
    assert not any(e["long_poll"] for e in throttled)


def test_members_of_a_share_group_received_what_they_acquired() -> None:
    name = "java43-share-group"
    fetches = [call for call in rows(name)["exchanges"] if call["api"] == "ShareFetch"]
    assert sum(call["records"] or 0 for call in fetches) == truth(name)["share"]["deliveries"]
    again = [one["number"] for one in rows(name)["events"] if one["kind"] == "delivered_again"]
    assert sum(again) == truth(name)["share"]["released"]


def test_each_consumer_received_what_its_isolation_level_lets_through() -> None:
    """Both read all 61 records off the wire; the one that reads committed ones drops those of aborted transactions."""
    expected = truth("java43-transactions")["transactions"]
    received: Counter[str] = Counter()
    for exchange in rows("java43-transactions")["exchanges"]:
        if exchange["api"] == "Fetch" and exchange["topics"] == ["pay-tx"]:
            received[exchange["client_id"]] += exchange["records"] or 0
    assert received == {"pay-rc": expected["read_committed_consumed"], "pay-ru": expected["read_uncommitted_consumed"]}
