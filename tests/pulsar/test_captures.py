"""Captures of real brokers and clients: what the client programs know to be true is in the rows."""

import collections
import json
import re
from pathlib import Path
from typing import Any

import pytest

import dissectors
from tests.captures import captures, needs_captures, truths

FOLDER = captures("pulsar")
TRUTHS = truths("pulsar")
COMPACTED = [path for path in TRUTHS if '"compacted_read"' in path.read_text()]
pytestmark = needs_captures


def dissected(truth: dict[str, Any], **more: Any) -> dict[str, list[dict[str, Any]]]:
    names = truth.get("captures") or [truth["capture"]]
    if truth.get("tls_keylog"):
        more["keylog"] = str(FOLDER / truth["tls_keylog"])
    tables = ["exchanges", "batches", "messages", "findings"]
    found = dissectors.dissect([FOLDER / name for name in names], tables=tables, **more)
    return {name: table.to_pylist() for name, table in found.items()}


def same(found: str | None, wanted: str) -> bool:
    """Segments of a scalable topic count as the topic; a name without a tenant is one of public/default."""
    wanted = wanted if "/" in wanted else f"public/default/{wanted}"
    segment = re.match(r"segment://(.+)/[0-9a-f]{4}-[0-9a-f]{4}-\d+$", found or "")
    return (segment[1] if segment else found or "").split("://")[-1] == wanted.split("://")[-1]


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.stem)
def test_what_the_client_program_knows_is_in_the_rows(path: Path) -> None:
    truth = json.loads(path.read_text())
    found = dissected(truth, full=True, payloads=True)
    assert found["exchanges"]
    assert sum(batch["verdict"] == "bad" for batch in found["batches"]) == truth.get("bad_batches", 0)
    shown = json.dumps(found, default=str)
    assert not [secret for secret in truth.get("secrets", []) if len(secret) >= 5 and secret in shown]
    if truth.get("partial"):
        return
    trouble = [f for f in found["findings"] if f["kind"] in ("malformed_frame", "resync", "decompress_failed")]
    assert len(trouble) <= truth.get("malformed", 0)
    produced: collections.Counter[str | None] = collections.Counter()
    opaque = {json.loads(f["evidence"])["topic"] for f in found["findings"] if f["kind"] == "encrypted"}
    for batch in found["batches"]:
        if batch["role"] == "produce" and batch["outcome"] != "error" and not batch["control"]:
            produced[batch["topic"]] += batch["records"]
    for topic, want in truth["topics"].items():
        count = sum(n for found, n in produced.items() if same(found, topic))
        if want.get("produced") is not None and not truth.get("resends"):
            assert count == want["produced"], topic
        delivered = [m for m in found["messages"] if m["role"] == "consume" and same(m["topic"], topic)]
        if want.get("consumed") and not any(same(found, topic) for found in opaque):
            assert len(delivered) >= want["consumed"], topic
    values = {message["value"] for message in found["messages"]}
    sample = [m["value"].encode() for m in truth.get("messages_sample", []) if isinstance(m.get("value"), str)]
    if not opaque:
        assert not [value for value in sample if len(value) < 60 and value not in values]


@pytest.mark.parametrize("path", TRUTHS, ids=lambda path: path.stem)
def test_send_and_message_of_one_entry_carry_one_checksum(path: Path) -> None:
    truth = json.loads(path.read_text())
    if "compact" in path.stem or "old_" in path.stem:
        pytest.skip("this broker writes entries anew")
    if "geo-" in path.stem:
        pytest.skip("two clusters give the same positions to different entries")
    stored: dict[tuple[Any, ...], set[str]] = collections.defaultdict(set)
    for batch in dissected(truth)["batches"]:
        if not batch["topic"] or batch["topic"].startswith("non-persistent://"):
            continue  # what is not stored has no place: brokers call it 0:0
        if batch["position"] and batch["verdict"] == "ok":
            stored[batch["topic"], batch["partition"], batch["position"]].add(batch["checksum_stored"])
    assert all(len(sums) == 1 for sums in stored.values())


@pytest.mark.parametrize("path", COMPACTED, ids=lambda path: path.stem)
def test_what_compaction_left_is_read_with_its_batch_indices(path: Path) -> None:
    truth = json.loads(path.read_text())
    read = collections.Counter(m["position"] for m in dissected(truth)["messages"] if m["role"] == "consume")
    for message in truth["compacted_read"]:
        packet_ref = [message[name] for name in ("ledger", "entry", "batch_index") if message[name] >= 0]
        assert read[":".join(map(str, packet_ref))], message
