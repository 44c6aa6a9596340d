"""The invariants of the design, on real captures: one set of records however they are cut, every byte accounted for."""

from __future__ import annotations

import gzip
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.limits import Limits
from dissectors.records import TABLES
from tests.lossy import drop, segments, untouched
from tests.pipelines import cutting

SAMPLES = Path(__file__).parent.parent / "samples"
CAPTURES = sorted(p for p in SAMPLES.iterdir() if p.suffix in (".pcap", ".pcapng"))
CLASSIC = [p for p in CAPTURES if p.suffix == ".pcap"]
WHERE = ("file", "packet", "request_file", "request_packet", "response_file", "response_packet", "site", "evidence")


def rows(paths: list[Path] | Path, **more: Any) -> dict[str, list[str]]:
    """Every row of every table, comparable: without the file's name and the packet's number in it."""
    given = [str(p) for p in (paths if isinstance(paths, list) else [paths])]
    tables = dissectors.dissect(given, tables=list(TABLES), full=True, payloads=True, **more)
    return {
        name: sorted(repr({k: v for k, v in row.items() if k not in WHERE}) for row in table.to_pylist())
        for name, table in tables.items()
    }


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.stem)
@pytest.mark.parametrize(("block_bytes", "decode_bytes"), [(700, 0), (700, 2000), (700, 1 << 20), (20_000, 0)])
def test_records_do_not_depend_on_the_block_size(path: Path, block_bytes: int, decode_bytes: int) -> None:
    assert rows(path, limits=Limits(block_bytes=block_bytes, decode_bytes=decode_bytes)) == rows(path)


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize("seed", range(3))
def test_nor_where_packets_come_in_another_order(path: Path, seed: int, tmp_path: Path) -> None:
    head, all_packets = cutting.read(path)
    rng = random.Random(seed)
    for n in range(len(all_packets) - 3):
        if rng.random() < 0.1:
            all_packets.insert(n + 3, all_packets.pop(n))
    mixed = Path(cutting.write(tmp_path / "mixed.pcap", head, cutting.timed(head, all_packets, 1_000_000)))
    assert rows(mixed, limits=Limits(block_bytes=700, decode_bytes=2000)) == rows(mixed)


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize("back_s", [0.001, 3600])
def test_nor_where_the_clock_of_the_capturer_steps_back(path: Path, back_s: float, tmp_path: Path) -> None:
    head, all_packets = cutting.read(path)
    half = len(all_packets) // 2
    later = cutting.shifted(head, all_packets[half:], -round(back_s * 10**9))
    stepping = Path(cutting.write(tmp_path / "stepping.pcap", head, all_packets[:half] + later))
    assert rows(stepping, limits=Limits(block_bytes=700, decode_bytes=2000)) == rows(stepping)


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
def test_records_do_not_depend_on_how_a_capture_is_cut_into_files(path: Path, tmp_path: Path) -> None:
    head, all_packets = cutting.read(path)
    rng = random.Random(7)
    cuts = sorted(rng.sample(range(1, len(all_packets)), 9))
    for i, (a, b) in enumerate(zip([0, *cuts], [*cuts, len(all_packets)], strict=True)):
        data = head + b"".join(all_packets[a:b])
        name = tmp_path / f"ring-{i:03d}"
        name.write_bytes(gzip.compress(data) if i % 2 else data)
    assert rows(tmp_path) == rows(path)


@pytest.mark.parametrize("path", CAPTURES, ids=lambda p: p.stem)
def test_every_captured_byte_is_framed_skipped_or_pending(path: Path) -> None:
    for row in dissectors.dissect([path], tables=["connections"])["connections"].to_pylist():
        if row["tls"] or row["foreign"]:
            continue  # what is framed of TLS is plaintext; HTTP is not framed
        accounted = row["framed_bytes"] + row["skipped_bytes"] + row["pending_bytes"]
        assert accounted == row["client_bytes"] + row["server_bytes"], row["connection"]


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize("share", [0.01, 0.05])
def test_bytes_are_conserved_and_nothing_is_invented_when_packets_are_lost(
    path: Path, share: float, tmp_path: Path
) -> None:
    lossy = tmp_path / "lossy.pcap"
    drop(path, share, 5, lossy)
    whole, found = dissectors.dissect([path]), dissectors.dissect([lossy])
    for row in found["connections"].to_pylist():
        accounted = row["framed_bytes"] + row["skipped_bytes"] + row["pending_bytes"]
        if row["protocol"]:
            assert accounted == row["client_bytes"] + row["server_bytes"], row["connection"]

    def known(tables: dict[str, Any], *, orphans: bool) -> set[tuple[Any, ...]]:
        """What identifies an exchange; of an answer whose request was lost the api may be unknown."""
        return {
            (r["client_port"], r["correlation_id"], None if orphans else r["api"])
            for r in tables["exchanges"].to_pylist()
            if orphans or r["kind"] != "orphan"
        }

    for orphans in (True, False):
        assert known(found, orphans=orphans) <= known(whole, orphans=orphans)
    bad = [b for b in found["batches"].to_pylist() if b["verdict"] == "bad"]
    assert len(bad) <= sum(b["verdict"] == "bad" for b in whole["batches"].to_pylist())


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize(("share", "recall"), [(0.01, 1.0), (0.05, 0.99), (0.1, 0.98)])
def test_exchanges_that_no_lost_packet_touched_are_found_again(
    path: Path, share: float, recall: float, tmp_path: Path
) -> None:
    """As they are in the whole capture: no loss beside them hides them, or changes what they say."""
    same = ("client_port", "kind", "api", "correlation_id", "request_bytes", "response_bytes", "status", "records")
    whole = dissectors.dissect([path], tables=["exchanges"])["exchanges"].to_pylist()
    wanted, found = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    for seed in range(3):
        lost = drop(path, share, seed, tmp_path / "lossy.pcap")
        lossy = dissectors.dissect([tmp_path / "lossy.pcap"], tables=["exchanges"])["exchanges"].to_pylist()
        wanted.update((seed, *(row[c] for c in same)) for row in untouched(whole, segments(path), lost))
        found.update((seed, *(row[c] for c in same)) for row in lossy)
    assert wanted.total() > len(whole)  # of three captures
    assert (wanted & found).total() >= recall * wanted.total(), wanted - found


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
def test_records_do_not_depend_on_packets_captured_twice(path: Path, tmp_path: Path) -> None:
    head, all_packets = cutting.read(path)
    rng = random.Random(3)
    doubled = [p for packet in all_packets for p in ([packet] * (2 if rng.random() < 0.2 else 1))]
    twice = tmp_path / "twice.pcap"
    twice.write_bytes(head + b"".join(doubled))
    got, want = rows(twice), rows(path)
    for table in ("exchanges", "batches", "errors", "messages"):
        assert got[table] == want[table], table


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize("share", [0.3, 0.5, 0.7])
def test_a_capture_that_begins_in_mid_stream_is_read_as_the_same_protocol(
    path: Path, share: float, tmp_path: Path
) -> None:
    head, all_packets = cutting.read(path)
    late = tmp_path / "late.pcap"
    late.write_bytes(head + b"".join(all_packets[int(len(all_packets) * share) :]))
    found = dissectors.dissect([late], tables=["connections", "exchanges"])
    protocol = path.stem.split("-")[0]
    assert {row["protocol"] for row in found["connections"].to_pylist() if row["frames"]} <= {protocol}
    assert found["exchanges"].num_rows


@pytest.mark.parametrize("path", CLASSIC, ids=lambda p: p.stem)
@pytest.mark.parametrize("side", ["client", "server"])
def test_one_direction_alone_is_still_decoded(path: Path, side: str, tmp_path: Path) -> None:
    """A tap that sees one direction: requests without answers, answers without requests."""
    whole = dissectors.dissect([path], tables=["exchanges"])["exchanges"].to_pylist()
    servers = {row["server_port"] for row in whole}
    head, all_packets = cutting.read(path)
    one = tmp_path / "one.pcap"
    one.write_bytes(
        head + b"".join(p for p in all_packets if (int.from_bytes(p[52:54], "big") in servers) == (side == "client"))
    )
    found = dissectors.dissect([one], tables=["exchanges", "findings"])
    kinds = {row["kind"] for row in found["exchanges"].to_pylist()}
    if side == "client":
        assert kinds <= {"unanswered", "oneway"}
        calls = [row for row in whole if row["kind"] in ("call", "unanswered", "oneway")]
        assert found["exchanges"].num_rows >= 0.95 * len(calls)
    else:
        assert kinds <= {"orphan", "push"}
        unnamed = sum(f["kind"].startswith("orphan") for f in found["findings"].to_pylist())
        said = [row for row in whole if row["response_packet"] is not None]
        assert found["exchanges"].num_rows + unnamed > 0.5 * len(said)
