"""Sends and polls of Iggy that begin with the same message, by what its messages say of themselves."""

from pathlib import Path
from typing import Any

import dissectors
from pipelines.answers.records import query
from pipelines.tables.delivery import DELIVERY
from pipelines.tables.dialect import DuckDB
from pipelines.tables.table import Ask

SAMPLE = Path(__file__).parents[2] / "samples" / "iggy-messages.pcap"


def test_polls_that_begin_with_the_first_message_of_a_send_are_deliveries_of_it() -> None:
    found = dissectors.dissect(str(SAMPLE), tables=("exchanges", "batches", "positions", "messages"))
    first: dict[tuple[str, str, int], dict[str, Any]] = {}  # of each run
    for row in found["messages"].to_pylist():
        first.setdefault((row["role"], row["exchange_id"], row["stream_offset"]), row)
    sent = {row["event_time"]: row["time"] for (role, *_), row in first.items() if role == "produce"}
    polled = [row for (role, *_), row in first.items() if role == "consume"]
    delays = [row["time"] - sent[row["event_time"]] for row in polled if row["event_time"] in sent]
    assert 0 < len(delays) < len(polled)  # others begin in the middle of a send
    tables = {name: found[name] for name in ("exchanges", "batches", "positions")}
    every = {f"all_{name}": rows for name, rows in tables.items()}
    (row,) = query({**tables, **every}, DELIVERY.query(DuckDB(), Ask()))
    assert (row["protocol"], row["deliveries"]) == ("iggy", len(delays))
    assert row["delay_max_ns"] == round(max(delays).total_seconds() * 1e9)
    assert row["produce_p50_ns"] > 0
    assert row["waiting_p50_ns"] + row["fetch_p50_ns"] > 0
    assert row["commit_p50_ns"] is None
