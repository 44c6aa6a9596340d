"""Where subscriptions of Pulsar and consumers of Iggy stand, in samples: against other columns that say the same."""

from pathlib import Path
from typing import Any

import pyarrow as pa

import dissectors
from pipelines.answers.records import query
from pipelines.tables.dialect import DuckDB
from pipelines.tables.lag import LAG
from pipelines.tables.table import Ask

SAMPLES = Path(__file__).parent.parent / "samples"
Rows = list[dict[str, Any]]


def read(name: str) -> tuple[Rows, Rows, Rows]:
    """The rows of `positions`, `exchanges` and `batches` of a sample."""
    tables = dissectors.dissect([SAMPLES / name], tables=["positions", "exchanges", "batches"])
    return tables["positions"].to_pylist(), tables["exchanges"].to_pylist(), tables["batches"].to_pylist()


def lag(tables: dict[str, pa.Table]) -> Rows:
    """The table `lag` of some records."""
    rows: Rows = query(tables, LAG.query(DuckDB(), Ask()))
    return rows


def test_acknowledged_entries_of_pulsar_are_entries_that_the_subscription_got() -> None:
    positions, exchanges, batches = read("pulsar-subscriptions.pcap")
    got = {(b["topic"], b["group"], b["position"]) for b in batches if b["role"] == "consume"}
    acked = [row for row in positions if row["api"] == "ACK"]
    assert acked
    assert {(row["topic"], row["group"], f"{row['ledger']}:{row['value']}") for row in acked} <= got
    assert {row["what"] for row in acked} == {"committed"}
    known = {row["exchange_id"] for row in exchanges}
    assert {row["exchange_id"] for row in positions} <= known


def test_each_grant_of_permits_and_each_lookup_is_a_position() -> None:
    positions, exchanges, _ = read("pulsar-subscriptions.pcap")
    for api, what in (("FLOW", "permits"), ("LOOKUP", "leader")):
        stated = [row["exchange_id"] for row in positions if row["what"] == what]
        assert sorted(stated) == sorted(row["exchange_id"] for row in exchanges if row["api"] == api)
    assert {row["leader"] for row in positions if row["what"] == "leader"} == {"pulsar://10.72.0.1:6650"}


def test_what_a_poll_of_iggy_got_lies_before_the_end_and_is_committed_if_it_is_to_be() -> None:
    positions, _, batches = read("iggy-messages.pcap")
    ends = {row["exchange_id"]: row["value"] for row in positions if row["what"] == "high_watermark"}
    last: dict[str, int] = {}
    for batch in batches:
        if batch["role"] == "consume":
            last[batch["exchange_id"]] = max(last.get(batch["exchange_id"], -1), batch["last_offset"])
    assert last
    assert all(ends[exchange] > offset for exchange, offset in last.items())
    polled = [row for row in positions if row["what"] == "committed" and row["api"] == "POLL_MESSAGES"]
    assert polled
    assert all(row["value"] == last[row["exchange_id"]] + 1 for row in polled)


def test_offsets_of_consumers_of_iggy_that_are_in_no_group_are_told_with_their_names() -> None:
    positions, _, _ = read("iggy-messages.pcap")
    assert all((row["group"] is None) != (row["consumer"] is None) for row in positions)
    alone = {row["consumer"] for row in positions if row["what"] == "committed" and row["group"] is None}
    assert alone == {"dev-reader", "11"}
    known = lag(
        dissectors.dissect([SAMPLES / "iggy-messages.pcap"], tables=["exchanges", "positions", "batches", "events"])
    )
    assert {row["group"] for row in known} == {"dev-cg", "consumer dev-reader", "consumer 11"}
