"""Clients in several languages, each with a server of its time: what is decoded is what the client program was given.

captures/server-0.2.20-python   server 0.2.20, iggy-py 0.2.0: a topic of two partitions, sends, polls, two refusals
captures/server-0.3.0-node      server 0.3.0, the Node SDK 1.0.6 of 0.4: its own test suite, which expects answers to
                                creations that this server gives empty
captures/client-0.10-python     apache-iggy 0.9.1.dev5, which speaks protocol 0.12.0, with a stand-in for the server
"""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors

CAPTURES = Path(__file__).parent / "captures"
TABLES = ("exchanges", "batches", "errors", "messages", "connections", "findings")
SOUND = {"dialect", "dialect_uncertain"}


def read(name: str) -> dict[str, list[dict[str, Any]]]:
    found = dissectors.dissect([str(CAPTURES / f"{name}.pcap")], tables=list(TABLES), payloads=True, full=True)
    return {table: found[table].to_pylist() for table in TABLES}


@pytest.mark.parametrize(
    ("name", "dialect", "calls"),
    [
        ("server-0.2.20-python", "iggy-0.2", 17),
        ("server-0.3.0-node", "iggy-0.3", 65),
        ("client-0.10-python", "iggy-vsr-0.10", 35),
    ],
)
def test_a_client_of_another_language_is_read_in_the_era_of_its_server(name: str, dialect: str, calls: int) -> None:
    rows = read(name)
    assert Counter((e["kind"], e["dialect"]) for e in rows["exchanges"]) == {("call", dialect): calls}
    assert {f["kind"] for f in rows["findings"]} <= SOUND
    assert {b["verdict"] for b in rows["batches"]} <= {"ok", "absent"}


def test_a_server_of_0_2_20_reports_itself_to_its_python_client() -> None:
    rows = read("server-0.2.20-python")
    produced = Counter[int]()
    for batch in rows["batches"]:
        if batch["role"] == "produce":
            produced[batch["partition"]] += batch["records"]
    assert produced == {1: 50, 2: 50}
    polled = [m for m in rows["messages"] if m["role"] == "consume"]
    assert [(m["partition"], m["offset"]) for m in polled] == [(p, i) for p in (1, 2) for i in range(17)]
    assert polled[1]["value"] == b"0|m1-0-1"  # iggy-py 0.2.0 puts a number before it
    assert [(e["api"], e["name"], e["message"]) for e in rows["errors"]] == [
        ("CREATE_STREAM", "StreamNameAlreadyExists", "Stream with name: py-stream already exists."),
        ("POLL_MESSAGES", "StreamIdNotFound", "Stream with ID: 9 was not found."),
    ]


def test_a_client_of_0_10_is_recognised() -> None:
    rows = read("client-0.10-python")
    confirmed = [b for b in rows["batches"] if b["role"] == "produce" and b["outcome"] == "ok"]
    assert [(b["partition"], b["base_offset"], b["last_offset"]) for b in confirmed] == [
        (p, first, first + 4) for p in (0, 1) for first in (0, 5, 10)
    ]
    polled = {m["offset"]: m["value"] for m in rows["messages"] if m["role"] == "consume"}
    assert sorted(polled) == [*range(7), *range(10, 15)]
    assert polled[10] == b"order 1-2-0"
    assert [(e["api"], e["name"]) for e in rows["errors"]] == [
        ("CREATE_STREAM", "StreamNameAlreadyExists"),
        ("DELETE_STREAM", "StreamIdNotFound"),
        ("SEND_MESSAGES", "PartitionNotFound"),
    ]
    (connection,) = rows["connections"]
    assert (connection["client_software"], connection["client_version"]) == ("rust-sdk", "0.11.1-edge.5")


def test_no_secret_of_a_client_is_shown() -> None:
    for name in ("server-0.2.20-python", "server-0.3.0-node", "client-0.10-python"):
        assert "secret-of-ann" not in str(read(name))
