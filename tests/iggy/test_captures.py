"""Real servers and clients: what is decoded agrees with what the client programs know."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors
from tests.captures import captures, needs_captures, truths

CAPTURES = captures("iggy")
TRUTHS = truths("iggy")
DIALECTS = {
    "s04": "iggy-2023",
    "s0": "iggy-2023",
    "a4": "iggy-0.4",
    "b5": "iggy-0.5",
    "b6": "iggy-0.6",
    "b8": "iggy-0.7",
    "c9": "iggy-vsr-0.9",
}
MISREAD = {
    "b8-dev-python06-mismatch",  # its client speaks 0.6
    "s0-dev-unauthsend",  # a send and a ping: every release to 0.4 reads them
}

pytestmark = needs_captures


def truth(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def read(path: Path, *tables: str, **options: Any) -> dict[str, list[dict[str, Any]]]:
    t = truth(path)
    names = t.get("captures") or [t["capture"]]
    if "tls_keylog" in t:
        options["keylog"] = str(path.parent / t["tls_keylog"])
    found = dissectors.dissect([str(path.parent / n) for n in names], tables=tables, **options)
    return {table: found[table].to_pylist() for table in tables}


@pytest.mark.parametrize("path", [p for p in TRUTHS if p.stem.split("-")[0] in DIALECTS], ids=lambda p: p.stem)
def test_a_capture_of_one_era_is_never_read_as_another(path: Path) -> None:
    rows = read(path, "exchanges")["exchanges"]
    seen = Counter(row["dialect"] for row in rows)
    if path.stem in MISREAD or "badcmd" in path.stem:
        return
    assert set(seen) == {DIALECTS[path.stem.split("-")[0]]}


@pytest.mark.parametrize("path", [p for p in TRUTHS if "messages" in p.stem or "large" in p.stem], ids=lambda p: p.stem)
def test_sampled_messages_are_as_the_application_saw_them(path: Path) -> None:
    rows = read(path, "messages", payloads=True)["messages"]
    polled = {(row["topic"], row["partition"], row["offset"]): row for row in rows if row["role"] == "consume"}
    for sample in truth(path)["messages_sample"]:
        row = polled[sample["topic"], sample["partition"], sample["offset"]]
        assert row["value"].startswith((sample.get("value") or sample.get("value_prefix") or "").encode())
        assert row["message_id"] == sample.get("id", row["message_id"])
        if "headers" in sample:
            headers = {entry["key"]: entry["value"] for entry in json.loads(row["headers"])}
            assert headers.keys() == sample["headers"].keys()
            exact = [k for k in headers if k not in ("h-raw", "h-u64")]
            assert {k: headers[k] for k in exact} == {k: sample["headers"][k] for k in exact}


@pytest.mark.parametrize("path", [p for p in TRUTHS if "messages" in p.stem], ids=lambda p: p.stem)
def test_every_poll_gave_what_the_client_counted(path: Path) -> None:
    rows = [e for e in read(path, "exchanges")["exchanges"] if e["api"] == "POLL_MESSAGES"]
    for topic in truth(path)["topics"].values():
        assert [e["records"] for e in rows][: len(topic["polls"])] == [poll["got"] for poll in topic["polls"]]


def test_a_server_that_loses_the_pairing_is_paired_again() -> None:
    path = CAPTURES / "b8-dev-desync.json"
    found = read(path, "exchanges", "findings")
    calls = [(e["api"], e["error_code"]) for e in found["exchanges"] if e["kind"] == "call"]
    assert calls == [("SEND_MESSAGES", 40), ("PING", None)] * 2
    answers = [json.loads(f["evidence"])["answers"] for f in found["findings"] if f["kind"] == "pairing_lost"]
    assert answers == [16, 36]


def test_the_retries_of_a_failover_are_counted() -> None:
    path = CAPTURES / "c9-dev-cluster-failover.json"
    found = read(path, "batches", "errors")
    assert sum(error["code"] == 58 for error in found["errors"]) == 102
    assert sum(b["records"] for b in found["batches"] if b["role"] == "produce" and b["outcome"] == "ok") == 18
    assert {b["verdict"] for b in found["batches"]} == {"ok"}
    assert {b["role"] for b in found["batches"]} == {"produce", "consume", "replicate"}
