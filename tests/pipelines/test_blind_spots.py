"""What a capture cannot show is reported, with numbers and what to do; nothing is, for one that shows all."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pytest

from dissectors import records
from pipelines.tables.blind_spots import LOOKED_AT, BlindSpot, Seen

WHOLE: dict[str, Any] = {
    "protocol": "kafka", "tls": False, "server_port": 9092, "client_packets": 5, "server_packets": 4,
    "client_bytes": 10, "server_bytes": 10, "gap_bytes": 0, "handshake": "full", "file": "a.pcap",
}  # fmt: skip
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def spots(
    *changes: dict[str, Any], findings: list[dict[str, Any]] | None = None, cut: int | None = None
) -> list[BlindSpot]:
    rows = [
        {**WHOLE, "packet": at + 1, "start_time": NOON + timedelta(seconds=at), **c} for at, c in enumerate(changes)
    ]
    seen = Seen()
    for table, made in (("connections", rows), ("findings", findings or [])):
        for batch in pa.Table.from_pylist(made, records.schema(table)).to_batches(max_chunksize=2):
            seen.add(table, batch)
    return seen.spots(cut)


SEALED = {"protocol": None, "tls": True, "server_port": 9093}


@pytest.mark.parametrize(
    ("changes", "kind", "text", "advice"),
    [
        ([SEALED, SEALED, {}], "tls", "2 of 3 connections TLS without keys (port 9093)", "--keylog"),
        ([{"gap_bytes": 2048}, {}], "loss", "2.00 KiB missing on 1 of 2 connections", "tcpdump -B"),
        (
            [{"server_packets": 0, "server_bytes": 0}],
            "one_way",
            "1 of 1 connection seen in one direction only",
            "both directions",
        ),
        ([{"protocol": None, "server_port": 5672}], "unknown", "of no known protocol (port 5672)", "--decode-as"),
        ([{"handshake": "none"}, {}], "mid_stream", "1 of 2 connections began before the capture", "names"),
        ([{"closed": "open"}, {}, {}], "open_end", "1 of 3 connections still open at the end", "--update"),
        ([{}, {"start_time": NOON - timedelta(hours=1)}], "clock", "went back 1 time, by 1 h 00 min at most", "NTP"),
        (
            [{}, {"file": "b.pcap", "start_time": datetime(1970, 1, 1, tzinfo=UTC)}],
            "unset_clock",
            "1 file from before 2000 (b.pcap)",
            "--since 2000-01-01",
        ),
    ],
)
def test_each_blind_spot_is_reported_with_what_to_do(
    changes: list[dict[str, Any]], kind: str, text: str, advice: str
) -> None:
    (spot,) = spots(*changes)
    assert spot.kind == kind
    assert text in spot.text
    assert advice in spot.advice
    assert "\n" not in str(spot)


def test_a_capture_that_shows_everything_says_nothing() -> None:
    assert spots({}, {}, {}) == []
    assert spots() == []


@pytest.mark.parametrize("change", [{"foreign": "tls"}, {"foreign": "tls-alert"}, {"server_bytes": 0}])
def test_a_tls_handshake_that_failed_is_not_called_encrypted(change: dict[str, Any]) -> None:
    assert spots({**SEALED, **change}) == []


def test_a_peer_that_is_known_to_speak_something_else_is_not_called_unknown() -> None:
    assert spots({"protocol": None, "foreign": "http"}) == []


def test_a_broker_that_does_not_answer_is_seen_in_both_directions() -> None:
    """Its acknowledgements were captured: nothing has to be mirrored."""
    assert spots({"server_bytes": 0}, {}) == []


def test_a_connection_of_which_one_end_was_not_captured_is_not_called_open() -> None:
    """The end that is missing may have closed it; captures that follow would not show it either."""
    assert [spot.kind for spot in spots({"server_packets": 0, "server_bytes": 0, "closed": "open"})] == ["one_way"]


def test_packets_that_a_snap_length_cut_are_not_called_lost() -> None:
    (spot,) = spots({"cut_bytes": 100}, cut=7)
    assert spot.text == "7 packets cut short by the snap length"
    (spot,) = spots({"cut_bytes": 100})
    assert spot.text == "100 B of packets cut short by the snap length"
    assert [spot.kind for spot in spots({"cut_bytes": 100, "gap_bytes": 5})] == ["snaplen", "loss"]


def test_a_key_log_that_does_not_fit_is_reported() -> None:
    (spot,) = spots(SEALED, findings=[{"kind": "not_decrypted"}])
    assert "same run" in spot.advice


def test_files_that_were_not_read_to_the_end_are_named() -> None:
    damaged = [("truncated_file", "b.pcap: cut off in packet 7"), ("unreadable_file", "a.pcap: is empty")]
    (spot,) = spots({}, findings=[{"kind": kind, "message": message} for kind, message in damaged])
    assert spot.kind == "damaged"
    assert spot.text == "2 files not read, or not to the end (a.pcap: is empty; b.pcap: cut off in packet 7)"


def test_connections_closed_early_in_many_shares_are_told_in_one_line() -> None:
    counts = {"connections": 30, "running": 20, "unrecognised": 1, "packets": 500, "size": 1024}
    full = [{"kind": "limit", "evidence": json.dumps({**counts, "share": share})} for share in range(256)]
    others: list[dict[str, Any]] = [
        {"kind": "limit", "evidence": None},
        {"kind": "limit", "evidence": json.dumps({"codec": "zstd"})},
    ]
    (spot,) = spots({}, findings=[*full, *others])
    assert spot.kind == "closed_early"
    assert "7,680 connections given up before their end" in spot.text
    assert "5,120 had not ended, and 128,000 packets of them, 256 KiB, were left out" in spot.text
    assert "--limit flows" in spot.advice
    assert spots({}, findings=others) == []


def test_a_connection_that_a_side_began_to_close_is_not_still_open() -> None:
    closing = {"closed": "open", "closed_by": "client"}  # a broker that is frozen never closes its side
    assert spots(closing, closing) == []
    (spot,) = spots(closing, {"closed": "open"})
    assert spot.text == "1 of 2 connections still open at the end"


def test_the_disorder_of_an_ordinary_capture_is_no_step_of_the_clock() -> None:
    assert spots({}, {"start_time": NOON - timedelta(milliseconds=300)}) == []


def test_what_is_looked_at_are_columns_of_the_records() -> None:
    for table, columns in LOOKED_AT.items():
        assert set(columns) <= set(records.schema(table).names)


def test_a_clock_counts_each_step_back_in_each_file() -> None:
    hour, day = timedelta(hours=1), timedelta(days=1)
    (spot,) = spots(
        {"packet": 5, "start_time": NOON - hour}, {"packet": 2}, {"packet": 9, "start_time": NOON - day},
        {"packet": 12, "start_time": NOON - day + hour}, {"file": "b.pcap", "start_time": NOON - day},
    )  # fmt: skip
    assert "went back 2 times, by 23 h 00 min at most" in spot.text
