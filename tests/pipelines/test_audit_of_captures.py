"""`audit` of captures from which something that was delivered is removed: that is found, and nothing else."""

import json
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dissectors
from pipelines.tables.audit import TABLES, Statement
from tests.captures import CAPTURES, captures, needs_captures
from tests.pipelines.audited import audited

SAMPLES = Path(__file__).parents[2] / "samples"
Rows = list[dict[str, Any]]


def tables_of(path: Path) -> dict[str, pa.Table]:
    return dissectors.dissect([path], [*TABLES])


def consumed(batches: pa.Table) -> Rows:
    """Kafka's batches on their way to consumers."""
    rows: Rows = batches.filter(pc.equal(batches["role"], "consume")).to_pylist()
    return [row for row in rows if row["protocol"] == "kafka" and row["topic"] and row["base_offset"] is not None]


def inner(rows: Rows) -> Rows:
    """Batches that are neither the first nor the last of those that came of their partition, each once."""
    places: dict[tuple[str, int], dict[int, dict[str, Any]]] = {}
    for row in rows:
        places.setdefault((row["topic"], row["partition"]), {})[row["base_offset"]] = row
    return [row for found in places.values() for _, row in sorted(found.items())[1:-1]]


def lost(tables: dict[str, pa.Table]) -> list[Statement]:
    return [each for each in audited(tables) if each.what == "lost"]


def without(tables: dict[str, pa.Table], row: dict[str, Any]) -> dict[str, pa.Table]:
    """Records in which nobody got a batch."""
    batches = tables["batches"]
    mine = pc.equal(batches["role"], "consume")
    for name in ("topic", "partition", "base_offset"):
        mine = pc.and_(mine, pc.equal(batches[name], row[name]))
    return {**tables, "batches": batches.filter(pc.invert(pc.fill_null(mine, False)))}


def replaced(data: bytes, row: dict[str, Any]) -> bytes | None:
    """A capture in which answers hold a batch at offset 0 in the place of this one: no checksum covers the offset.

    None where its head does not lie in one packet.
    """
    head = struct.pack(">qi", row["base_offset"], row["stored_bytes"] - 12)
    tail = bytes([2]) + bytes.fromhex(row["checksum_stored"].removeprefix("0x"))
    changed, at = bytearray(data), data.find(head)
    found = False
    while at >= 0:
        if data[at + 16 : at + 21] == tail:
            changed[at : at + 8] = bytes(8)
            found = True
        at = data.find(head, at + 1)
    return bytes(changed) if found else None


def at(row: dict[str, Any]) -> str:
    """The offsets of a batch, as statements say them."""
    first, last = row["base_offset"], row["last_offset"]
    return f"offset {first}" if first == last else f"offsets {first} to {last}"


@pytest.mark.parametrize("name", ["kafka-codecs.pcap", "kafka-loss.pcap"])
def test_a_batch_that_answers_do_not_hold_is_found(name: str, tmp_path: Path) -> None:
    data = (SAMPLES / name).read_bytes()
    rows = inner(consumed(tables_of(SAMPLES / name)["batches"]))
    changed = [(row, made) for row in rows if (made := replaced(data, row)) is not None]
    assert changed
    for row, made in changed[:: 1 + len(changed) // 3]:
        path = tmp_path / "changed.pcap"
        path.write_bytes(made)
        (found,) = lost(tables_of(path))
        assert (found.topic, found.messages) == (row["topic"], row["records"])
        assert f"{at(row)} of partition {row['partition']}" in found.sentence


@pytest.mark.parametrize("name", ["kafka-codecs.pcap", "kafka-loss.pcap"])
def test_each_batch_whose_delivery_is_removed_is_found(name: str) -> None:
    tables = tables_of(SAMPLES / name)
    rows = inner(consumed(tables["batches"]))
    assert rows
    for row in rows[:: 1 + len(rows) // 6]:
        (found,) = lost(without(tables, row))
        assert (found.topic, found.messages) == (row["topic"], row["records"])
        assert f"{at(row)} of partition" in found.sentence


def without_entry(tables: dict[str, pa.Table], topic: str, group: str, position: str) -> dict[str, pa.Table]:
    """Records in which a subscription did not get an entry."""
    batches = tables["batches"]
    mine = pc.and_(pc.equal(batches["group"], group), pc.equal(batches["position"], position))
    mine = pc.and_(mine, pc.equal(batches["topic"], topic))
    return {**tables, "batches": batches.filter(pc.invert(pc.fill_null(mine, False)))}


def test_entries_of_pulsar_that_did_not_come_are_found() -> None:
    """Those that were acknowledged one by one, and those before one up to which a consumer acknowledged everything."""
    tables = dissectors.dissect([SAMPLES / "pulsar-subscriptions.pcap"], [*TABLES], full=True)
    rows = tables["batches"].to_pylist()
    sent = {(r["topic"], r["position"]) for r in rows if (r["role"], r["outcome"]) == ("produce", "ok")}
    found = set()
    for group in ("sub-shared", "sub-keyshared", "sub-exclusive"):
        got = sorted({(r["topic"], r["position"]) for r in rows if r["group"] == group} & sent)
        for topic, position in got[1:-1:6]:
            (each,) = lost(without_entry(tables, topic, group, position))
            assert (each.topic, each.group) == (topic, group)
            assert f"from entry {position} on," in each.sentence
            found.add(group)
    assert len(found) == 3


@needs_captures
def test_a_leader_that_lacks_acknowledged_messages_is_found(tmp_path: Path) -> None:
    """Its answers to Produce are changed to give offsets 2 and 3 again, which the leader before it had given."""
    assert CAPTURES is not None
    path = CAPTURES / "kafka" / "cluster3-any-failover.pcap"
    assert lost(tables_of(path)) == []
    data = path.read_bytes()
    for offset in range(4, 20):  # partition 0, no error, the offset, no time of the log
        given, again = (struct.pack(">ihqq", 0, 0, base, -1) for base in (offset, offset - 2))
        data = data.replace(given, again)
    changed = tmp_path / "changed.pcap"
    changed.write_bytes(data)
    (found,) = lost(tables_of(changed))
    assert (found.topic, found.group, found.messages) == ("cluf-lead", None, 2)
    assert "offsets 2 to 3 of partition 0, were acknowledged in leader epoch 0" in found.sentence


@needs_captures
@pytest.mark.parametrize("protocol", ["kafka", "pulsar", "iggy"])
def test_nobody_is_accused_of_a_loss_that_clients_do_not_know(protocol: str) -> None:
    """None of the captures' clients lost a message that they were promised."""
    assert CAPTURES is not None
    for described in sorted(captures(protocol).glob("*.json")):
        about = json.loads(described.read_text())
        paths = [described.parent / name for name in about.get("captures") or [about["capture"]]]
        if sum(path.stat().st_size for path in paths) < 2_000_000:
            assert lost(dissectors.dissect(paths, [*TABLES])) == [], described.name
