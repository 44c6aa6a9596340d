"""Several sites beside each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from dissectors.capture.block import COLUMNS, PacketBlock
from dissectors.capture.merge import interleave


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
