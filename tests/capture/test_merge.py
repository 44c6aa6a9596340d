"""Several sites beside each other, and several files of one."""

from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from dissectors.capture.block import COLUMNS, PacketBlock
from dissectors.capture.merge import interleave
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.run import Run
from dissectors.tls import KeyLog
from tests.pipelines import cutting
from tests.wires import CLIENT, SERVER, T0, blocks, payloads, pcap, segment


def block(*times: int) -> PacketBlock:
    columns: dict[str, Any] = {name: np.zeros(len(times), np.int64) for name in COLUMNS}
    return PacketBlock(b"", **(columns | {"clock": np.array(times, np.int64)}))


def site(log: list[str], name: str, *blocks: PacketBlock) -> tuple[str, int, object]:
    def read() -> Iterator[PacketBlock]:
        log.append(f"{name} opened")
        for number, each in enumerate(blocks):
            log.append(f"{name} {number}")
            yield each

    return name, int(blocks[0].clock[0]) if blocks else 0, read


def test_sites_take_turns_by_time_and_each_is_opened_when_its_time_has_come() -> None:
    log: list[str] = []
    sites = [site(log, "a", block(1, 4), block(5, 9)), site(log, "b", block(3, 6)), site(log, "c", block(20))]
    seen = []
    for name, packets, clock in interleave(sites):  # type: ignore[arg-type]
        seen.append((name, packets is None, clock))
        if clock == 3:
            assert log == ["a opened", "a 0"], "a block is dealt with before the next one is read"
    given = [("a", False, 3), ("b", False, 5), ("b", True, 5), ("a", False, 9), ("a", True, 9)]
    assert seen == [*given, ("c", False, 20), ("c", True, 20)]


def test_the_clock_never_passes_a_packet_that_is_still_to_come() -> None:
    log: list[str] = []
    sites = [site(log, "a", block(1, 100), block(100, 200)), site(log, "b", block(2, 3), block(50, 60))]
    done = 0
    for _, packets, clock in interleave(sites):  # type: ignore[arg-type]
        if packets is not None:
            assert int(packets.clock[0]) >= done
        done = clock


def test_a_site_without_packets_ends_at_once() -> None:
    assert [(name, packets) for name, packets, _ in interleave([site([], "a")])] == [("a", None)]  # type: ignore[list-item]


@pytest.mark.parametrize("block_bytes", [400, 3000, 1 << 20])
def test_a_datagram_of_which_files_hold_fragments_belongs_where_the_latest_of_them_lies(
    tmp_path: Path, block_bytes: int
) -> None:
    whole = [segment(CLIENT, SERVER, 1 + 500 * i, 1, bytes([i]) * 500, time=T0 + 1000 * i) for i in range(60)]
    (tmp_path / "whole.pcap").write_bytes(pcap(whole, nano=True))
    head, packets = cutting.read(tmp_path / "whole.pcap")
    rng = Random(3)
    pieces = cutting.timed(head, cutting.fragmented(head, packets, 200, rng), step=1000)
    all_in_one = blocks(tmp_path / "together.pcap", head + b"".join(pieces))
    sprayed = [int(rng.random() < 0.3) for _ in pieces]
    names = [
        cutting.write(tmp_path / f"{n}.pcap", head, [p for p, to in zip(pieces, sprayed, strict=True) if to == n])
        for n in (0, 1)
    ]
    run = Run(names, Options(site="one", limits=Limits(block_bytes=block_bytes)))
    (_, _, read), *others = run._sites(KeyLog())
    merged = list(read())
    assert not others
    assert payloads(merged) == payloads(all_in_one) == [bytes([i]) * 500 for i in range(60)]
    for column in ("time", "clock", "length", "seq"):
        got, want = (np.concatenate([getattr(b, column) for b in some]).tolist() for some in (merged, all_in_one))
        assert got == want, column
    files = np.concatenate([b.file for b in merged]).tolist()
    numbers = np.concatenate([b.number for b in all_in_one]).tolist()
    assert files == [sprayed[number - 1] for number in numbers]
    assert {0, 1} == set(files)
