"""Harnesses in the form that libFuzzer and OSS-Fuzz take: bytes in, nothing out, and an error where something is wrong.

usage: python -m tests.fuzz.harness TARGET|all [FILE … | --seconds N --seed S | arguments of libFuzzer]

Where atheris is installed, it chooses the bytes, by what they reach: run the sources then (BROKERSCOPE_UNCOMPILED=1),
as nothing is counted in compiled modules. Elsewhere, and with --seconds, the mutators of values.py change what the
samples hold. A FILE is run alone. What fails is kept in fuzz-failures. Of every input `check.look` is asked, in bounded
memory, and in time that grows with the input at most.

    kafka  pulsar  iggy  tls    pieces of two connections: 2 bytes (direction, connection, size in 14 bits), then the
                                bytes
    tcp                         packets: 2 bytes of size, then an Ethernet frame
    containers                  a capture file of any kind
"""

import argparse
import datetime
import hashlib
import os
import struct
import sys
import tempfile
import time
import traceback
import zlib
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from random import Random
from typing import NamedTuple

from tests.fuzz import check
from tests.fuzz.seeds import ROOT, SERVER_PORTS, FrameOnWire, frames, on_wire, seeds
from tests.fuzz.values import disturb
from tests.wires import Packet, pcap

BYTES_PER_SECOND = 10_000  # of an input, beyond check.FLOOR: that many take a second at most
_LARGEST = 1 << 14  # bytes of a piece, exclusively
_PIECES = 40  # of a seed, at most
_FAILED = Path("fuzz-failures")
TLS = ROOT / "samples" / "kafka-tls.pcapng"


class Target(NamedTuple):
    """What is fuzzed: how bytes become a capture, and bytes to begin with."""

    capture: Callable[[bytes], bytes]
    corpus: Callable[[], list[bytes]]
    keylog: Path | None = None


def _of_pieces(protocol: str, data: bytes) -> bytes:
    """A capture of the connections whose pieces stand in data."""
    found: list[FrameOnWire] = []
    while len(data) >= 2:
        head = int.from_bytes(data[:2], "big")
        size = head & _LARGEST - 1
        found.append(FrameOnWire(head >> 14 & 1, head >> 15, len(found) * 1_000_000, data[2 : 2 + size]))
        data = data[2 + size :]
    return pcap(on_wire(found, SERVER_PORTS[protocol]))


def _pieces(protocol: str) -> list[bytes]:
    """The frames of each sample of a protocol as pieces."""
    found = [seed.path for seed in seeds() if seed.protocol == protocol and seed.path != TLS]
    return [b"".join(map(_piece, frames(path, protocol)[:_PIECES])) for path in found]


def _encrypted() -> list[bytes]:
    """The records of a sample with TLS as pieces: whole, and its first."""
    return [b"".join(map(_piece, frames(TLS, "tls")[:most])) for most in (_PIECES, 8)]


def _keylog() -> Path:
    """The secrets that the sample holds (pcapng's block type 10), as a file of its own."""
    data, at, found = TLS.read_bytes(), 0, b""
    while at + 20 <= len(data):
        kind, size, _, length = struct.unpack_from("<IIII", data, at)
        found += data[at + 16 : at + 16 + length] if kind == 10 else b""
        at += size
    file = Path(tempfile.mkdtemp(prefix="brokerscope-fuzz-")) / "keys"
    file.write_bytes(found)
    return file


def _piece(frame: FrameOnWire) -> bytes:
    data = frame.data[: _LARGEST - 1]
    return (frame.direction << 15 | (frame.connection & 1) << 14 | len(data)).to_bytes(2, "big") + data


def _of_packets(data: bytes) -> bytes:
    """A capture of the packets that stand in data."""
    found: list[Packet] = []
    while len(data) >= 2:
        size = int.from_bytes(data[:2], "big")
        found.append(Packet(len(found) * 1_000_000, data[2 : 2 + size], size))
        data = data[2 + size :]
    return pcap(found)


def _packets() -> list[bytes]:
    """The first packets of each sample."""
    some = [[packet.data[:0xFFFF] for packet in seed.packets[:_PIECES]] for seed in seeds() if seed.links == 1]
    return [b"".join(len(packet).to_bytes(2, "big") + packet for packet in packets) for packets in some]


@cache
def targets() -> dict[str, Target]:
    """All targets, by name."""
    made = {name: Target(partial(_of_pieces, name), partial(_pieces, name)) for name in ("kafka", "pulsar", "iggy")}
    made["tls"] = Target(partial(_of_pieces, "kafka"), _encrypted, _keylog())
    made["tcp"] = Target(_of_packets, _packets)
    made["containers"] = Target(bytes, lambda: [seed.data for seed in seeds()])
    return made


def run(target: Target, data: bytes) -> None:
    """Look at what data stands for. Raises whatever goes wrong, FuzzFailureError where it takes too much."""
    with tempfile.NamedTemporaryFile(suffix=".pcap") as file:
        file.write(target.capture(data))
        file.flush()
        number = zlib.crc32(data) % check.ROUND
        for _ in range(2):  # the machine may have been at something else
            cost = check.measured(lambda: check.look(Path(file.name), target.keylog, number))
            if cost.peak > check.MEMORY:
                raise check.FuzzFailureError(f"{cost.peak >> 20} MiB; the limit is {check.MEMORY >> 20}")
            if cost.seconds <= check.FLOOR + len(data) / BYTES_PER_SECOND:
                return
        raise check.FuzzFailureError(f"{cost.seconds:.1f} s for {len(data)} bytes, twice")


def mutated(rng: Random, corpus: Sequence[bytes]) -> Iterator[bytes]:
    """Inputs without end: some of the corpus, changed in a few places or joined."""
    while True:
        data = rng.choice(corpus)
        if rng.random() < 0.3:
            other = rng.choice(corpus)
            data = data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]
        for _ in range(rng.choice((1, 1, 2, 4, 16))):
            data = disturb(rng, data)
        yield data


def by_our_own(name: str, seconds: float, seed: int) -> int:
    """Run a target on mutated inputs for some time; how many failed."""
    target, failed, count = targets()[name], 0, 0
    end = time.monotonic() + seconds
    for data in mutated(Random(f"{seed} {name}"), target.corpus()):
        if time.monotonic() > end:
            break
        count += 1
        try:
            run(target, data)
        except Exception:
            failed += 1
            _FAILED.mkdir(exist_ok=True)
            kept = _FAILED / f"{name}-{hashlib.sha256(data).hexdigest()[:12]}"
            kept.write_bytes(data)
            print(f"\nFAILED {name}: {kept}\n{traceback.format_exc()}", flush=True)
    print(f"{name}: {count} inputs, {failed} failed (seed {seed})", flush=True)
    return failed


def main(arguments: list[str]) -> int:
    """Run one target or all; 1 where an input failed."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz.harness")
    parser.add_argument("target", choices=[*targets(), "all"])
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int)
    given, others = parser.parse_known_args(arguments)
    if given.files and all(file.is_file() for file in given.files):
        for file in given.files:
            run(targets()[given.target], file.read_bytes())
        return 0
    if given.target != "all" and given.seconds is None:
        try:
            import atheris
        except ImportError:
            pass
        else:
            target = targets()[given.target]
            atheris.Setup([sys.argv[0], *map(str, given.files), *others], partial(run, target))
            atheris.Fuzz()
    seconds = float(os.environ.get("FUZZ_SECONDS") or 60) if given.seconds is None else given.seconds
    seed = given.seed or int(os.environ.get("FUZZ_SEED") or f"{datetime.date.today():%Y%m%d}")
    names = list(targets()) if given.target == "all" else [given.target]
    return int(sum([by_our_own(name, seconds / len(names), seed) for name in names]) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
