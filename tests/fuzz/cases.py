"""A seed number and a case number -> a mutated capture."""

from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

from tests.fuzz import files, iggy, kafka, packets, pulsar, tls
from tests.fuzz.frames import Mutator
from tests.fuzz.seeds import SERVER_PORTS, Seed, frames, on_wire, seeds
from tests.wires import Packet, pcap

FRAMES: dict[str, dict[str, Mutator]] = {
    "kafka": kafka.MUTATORS,
    "pulsar": pulsar.MUTATORS,
    "iggy": iggy.MUTATORS,
    "tls": {"tls records": tls.mutate},
}
_MOST_FRAMES, _MOST_PACKETS = 60, 150


@dataclass(frozen=True)
class Case:
    """A capture, how it came to be, and the capture that it came from."""

    name: str
    data: bytes
    suffix: str
    seed: Seed

    @property
    def keylog(self) -> Path | None:
        return self.seed.keylog


def make(seed: int, number: int) -> Case:
    """The case with this number."""
    rng = Random(f"{seed} {number}")
    chosen = rng.choice(seeds())
    layer = rng.random()
    if layer < 0.62:
        return _of_frames(rng, chosen)
    if layer < 0.85 and chosen.packets:
        return _of_packets(rng, chosen)
    return _of_file(rng, chosen)


def _of_frames(rng: Random, seed: Seed) -> Case:
    protocol = "tls" if seed.keylog else seed.protocol
    found = list(frames(seed.path, protocol))
    start = 0 if rng.random() < 0.6 or protocol == "tls" else rng.randrange(max(1, len(found)))
    found = found[start : start + rng.choice((6, 20, _MOST_FRAMES))]
    names = []
    for _ in range(rng.choice((1, 1, 2, 4))):
        name = rng.choice(list(FRAMES[protocol]))
        if found:
            found = FRAMES[protocol][name](rng, found)
            names.append(name)
    made = on_wire(
        found, SERVER_PORTS[seed.protocol] if rng.random() < 0.9 else rng.choice((1, 4000, 8090, 9092, 6650))
    )
    if rng.random() < 0.1 and made:
        name = rng.choice(list(packets.PACKETS))
        made = packets.PACKETS[name](rng, made)
        names.append(name)
    return Case(f"{seed.path.name}: {', '.join(names)}", pcap(_possible(made)), ".pcap", seed)


def _of_packets(rng: Random, seed: Seed) -> Case:
    start = rng.randrange(len(seed.packets)) if rng.random() < 0.3 else 0
    made = seed.packets[start : start + _MOST_PACKETS]
    names = []
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(packets.PACKETS))
        made = packets.PACKETS[name](rng, made)
        names.append(name)
    link = seed.links
    if rng.random() < 0.05:
        link = rng.choice(packets.LINK_TYPES)
        names.append(f"link type {link}")
    return Case(f"{seed.path.name}: {', '.join(names)}", pcap(_possible(made), link=link), ".pcap", seed)


def _possible(made: list[Packet]) -> list[Packet]:
    """Packets whose times a file can hold."""
    return [p._replace(time=p.time % (1 << 61), wire=max(len(p.data), p.wire) % (1 << 32)) for p in made]


def _of_file(rng: Random, seed: Seed) -> Case:
    suffix = seed.path.suffix
    choice: dict[str, Any] = {**(files.PCAP if suffix == ".pcap" else files.PCAPNG), **files.ANY}
    name = rng.choice(list(choice))
    return Case(f"{seed.path.name}: {name}", choice[name](rng, seed.data), suffix, seed)
