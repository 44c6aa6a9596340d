"""Memory does not grow with the capture, whatever is in it. Each run is measured in a process of its own, a fork.

How much a process takes depends on the machine too: on its allocators, its page size, how many cores it has. So bounds
are those that the product states (`Limits.memory_bytes`), and growth is compared with what was added to the capture.
"""

import gzip
import json
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, repeat
from pathlib import Path
from typing import Any, NamedTuple

import cramjam
import lz4.block
import lz4.frame
import pytest
import zstandard

from dissectors.capture.reader import Reader
from dissectors.engine import Engine
from dissectors.limits import KIB, MIB, Limits
from dissectors.options import Options
from dissectors.records import TABLES
from tests.benchmarks import captures, hostile
from tests.kafka.wire import message
from tests.pipelines import cutting
from tests.pulsar import wire as pulsar

SAMPLES = Path(__file__).parent.parent / "samples"
MEASURING = """
import json, os, re, sys
from pathlib import Path
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.run import Run

def measured(path, options, limits):
    options["decode_as"] = {int(port): name for port, name in options.get("decode_as", {}).items()}
    rows, findings = 0, set()
    for table, batch in Run([path], Options(limits=Limits(**limits), **options)).records():
        rows += batch.num_rows
        if table == "findings":
            findings.update(f"{row['kind']}: {row['message']}" for row in batch.select(["kind", "message"]).to_pylist())
    peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]  # ru_maxrss knows the parent's, too
    return rows, int(peak) * 1024, sorted(findings)

measured(sys.argv[1], {}, {})  # all that a run needs is loaded
for line in sys.stdin:
    if not os.fork():
        print(json.dumps(measured(*json.loads(line))), flush=True)
        os._exit(0)
    if os.wait()[1]:
        print("null", flush=True)
"""
Measure = Callable[..., tuple[int, int, list[str]]]


@pytest.fixture(scope="module")
def measure() -> Iterator[Measure]:
    """Asks for (rows, peak memory in bytes, findings) of a capture, of a process that has done nothing else."""
    command = [sys.executable, "-c", MEASURING, str(SAMPLES / "kafka-loss.pcap")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, answers = process.stdin, process.stdout

        def ask(path: Path, options: dict[str, Any] | None = None, **limits: int) -> tuple[int, int, list[str]]:
            print(json.dumps([str(path), options or {}, limits]), file=asked, flush=True)
            rows, peak, findings = json.loads(answers.readline())
            return rows, peak, findings

        yield ask


@pytest.mark.parametrize(("records", "value_bytes"), [(1, 60), (100, 1000)])
def test_a_capture_three_times_as_large_needs_no_more_memory(
    records: int, value_bytes: int, measure: Measure, tmp_path: Path
) -> None:
    small, large = tmp_path / "small.pcap", tmp_path / "large.pcap"
    captures.produce(large, 90 * MIB, records=records, value_bytes=value_bytes)
    head, packets = cutting.read(large)
    cutting.write(small, head, packets[: len(packets) // 3])
    rows, least, _ = measure(small)
    more_rows, most, _ = measure(large)
    assert more_rows > 2.5 * rows
    assert most - least < 45 * MIB  # of 60 MiB that came in addition
    assert most < Limits().memory_bytes // 2  # nothing stays open: this is the block in work, and its rows


class Case(NamedTuple):
    """A capture that asks for memory, and what has to be said of it."""

    write: Callable[[Path], None]
    finding: str | None  # a part of some finding; None where nothing has to be given up
    options: dict[str, Any] = {}
    limits: dict[str, int] = {}


def announced(
    port: int, head: bytes, finding: str = "limit: A frame of ", options: dict[str, Any] | None = None
) -> Case:
    def write(path: Path) -> None:
        hostile.announced_frames(path, 2_000, head, port=port, turns=4, size=1_400)

    return Case(write, finding, options or {}, {"memory_bytes": 16 * MIB})


def disorder(order: Callable[[int], list[int]]) -> Case:
    def write(path: Path) -> None:
        data = b"".join(produce(number, 64_000) for number in range(192))
        hostile.disorder(path, data, order(len(data) // 1000), port=9092)

    return Case(write, "gap: ")


def produce(correlation_id: int, size: int) -> bytes:
    """A request with a record set of so many zeros."""
    body = struct.pack(">hhii", -1, -1, 30_000, 1) + b"\0\6orders" + struct.pack(">iii", 1, 0, size) + bytes(size)
    return struct.pack(">ihhih", len(body) + 16, 0, 7, correlation_id, 6) + b"client" + body


def bomb(codec: int, compress: Callable[[bytes], bytes], count: int, value_bytes: int, finding: str) -> Case:
    def write(path: Path) -> None:
        hostile.bombs(path, codec, compress(hostile.records(count, value_bytes)), count, times=4)

    return Case(write, finding, {"tables": list(TABLES), "full": True, "payloads": True})


def zstd(data: bytes) -> bytes:
    return zstandard.ZstdCompressor().compress(data)


VALUE = 100 * MIB  # four of these are more than may be unfolded at once
REFUSED, CUT = "limit: A batch is not unfolded", "messages of a batch only "
API_VERSIONS = struct.pack(">ihhih", 16, 18, 0, 1, 6) + b"client"


def pulsar_bombs(number: int, compress: Callable[[bytes], bytes]) -> Case:
    """Messages that unfold into much, and some that lie about how much."""

    def write(path: Path) -> None:
        plain = pulsar.single(bytes(VALUE))
        packed = compress(plain)
        script = [(0, pulsar.connect()), (1, pulsar.connected()), (0, pulsar.producer()), (1, pulsar.producing())]
        for sequence, size in enumerate((len(plain), len(plain), 10, 2 * len(plain), (1 << 32) - 1, len(plain))):
            meta = pulsar.metadata(sequence, (8, number), (9, size), (11, 1))
            script.append((0, pulsar.send(sequence, pulsar.entry(meta, packed))))
        hostile.talk(path, 6650, script)

    return Case(write, "limit: An entry is not unfolded", {"tables": list(TABLES), "full": True, "payloads": True})


def wrappers(path: Path) -> None:
    """Old message sets in wrappers in wrappers, and wrappers of much."""
    wrapped = partial(message, 0, codec=1)
    inside = message(0, b"value")
    for _ in range(30):
        inside = wrapped(gzip.compress(inside))
    much = wrapped(gzip.compress(message(0, bytes(VALUE)), 1))
    many = wrapped(gzip.compress(wrapped(gzip.compress(bytes(VALUE), 1)) * 1000, 1))
    hostile.produce_sets(path, inside + much + many + much + much, times=2)


def packed_file(compress: Callable[[Iterable[bytes]], Iterable[bytes]]) -> Case:
    """A compressed capture of huge packets, more in all than there is memory."""

    def write(path: Path) -> None:
        hostile.short_connections(path, 10, API_VERSIONS, port=9092)
        size = 15 * MIB
        record = struct.pack("<IIII", captures.START_S, 0, size, size) + bytes(size)
        first = path.read_bytes()
        with path.open("wb") as file:
            file.writelines(compress(chain((first,), repeat(record, Limits().memory_bytes // size + 10))))

    return Case(write, None)


def gzipped(parts: Iterable[bytes]) -> Iterator[bytes]:
    stream = zlib.compressobj(1, zlib.DEFLATED, 31)
    yield from map(stream.compress, parts)
    yield stream.flush()


def zstandards(parts: Iterable[bytes]) -> Iterator[bytes]:
    stream = zstandard.ZstdCompressor().compressobj()
    yield from map(stream.compress, parts)
    yield stream.flush()


def lz4_frames(parts: Iterable[bytes]) -> Iterator[bytes]:
    return map(lz4.frame.compress, parts)


def absurd_blocks(path: Path) -> None:
    """A pcapng file with blocks as large as may be, and one that is larger than any."""
    section = struct.pack("<IIIHHqI", 0x0A0D0D0A, 28, 0x1A2B3C4D, 1, 0, -1, 28)
    interface = struct.pack("<IIHHII", 1, 20, 1, 0, 0, 20)
    size = 16 * MIB
    block = struct.pack("<II", 0x0BADF00D, size) + bytes(size - 12) + struct.pack("<I", size)
    with path.open("wb") as file:
        parts = (section, interface, *repeat(block, Limits().memory_bytes // size + 10))
        file.writelines(gzipped((*parts, struct.pack("<II", 6, 0xFFFFFFF0), bytes(4 * MIB))))


UNANSWERED = {"block_bytes": 16 * KIB, "decode_bytes": 8 * KIB}  # several are decoded apart from each other
CASES = {
    "unanswered SYNs": Case(
        lambda path: hostile.syn_flood(path, 30_000), "were closed early", limits={"flows": 2_000, "endpoints": 4_000}
    ),
    "short connections": Case(
        lambda path: hostile.short_connections(path, 8_000, API_VERSIONS, port=9092),
        "were closed early",
        limits={"flows": 500, "endpoints": 1_000},
    ),
    "announced Kafka frames": announced(
        9092, API_VERSIONS + struct.pack(">i", 50_000_000) + produce(2, 49_999_000)[4:80]
    ),
    "announced Pulsar frames": announced(
        6650,
        struct.pack(">II", 13, 9)
        + b"\x08\2\x12\5\x0a\1x\x20\x13"
        + struct.pack(">II", 5_000_000, 8)
        + bytes.fromhex("0806320408001000"),
    ),
    "announced Iggy frames": announced(
        8090, struct.pack("<II", 50_000_000, 101), options={"decode_as": {8090: "iggy"}}
    ),
    "every second segment first": disorder(lambda n: [*range(0, n, 2), *range(1, n, 2)]),
    "segments reversed": disorder(lambda n: [*range(n)][::-1]),
    "topics on many connections": Case(lambda path: hostile.many_topics(path, 20, 5_000), None),
    "gzip": bomb(1, lambda data: gzip.compress(data, 1), 1, VALUE, REFUSED),
    "snappy": bomb(2, lambda data: bytes(cramjam.snappy.compress_raw(data)), 1, VALUE, REFUSED),
    "lz4": bomb(3, lz4.frame.compress, 1, VALUE, REFUSED),
    "zstd": bomb(4, zstd, 1, VALUE, REFUSED),
    "Produce requests without answers": Case(
        lambda path: hostile.bombs(path, 4, zstd(hostile.records(1, VALUE)), 1, times=30, answered=False),
        REFUSED,
        {"tables": list(TABLES), "payloads": True},
        UNANSWERED,
    ),
    "many messages without answers": Case(
        lambda path: hostile.bombs(path, 4, zstd(hostile.records(50_000, 1)), 50_000, times=12, answered=False),
        "limit: Too many messages wait",
        {"tables": list(TABLES)},
    ),
    "Pulsar LZ4": pulsar_bombs(1, lambda data: lz4.block.compress(data, store_size=False)),
    "Pulsar ZLIB": pulsar_bombs(2, lambda data: zlib.compress(data, 1)),
    "Pulsar ZSTD": pulsar_bombs(3, zstd),
    "Pulsar SNAPPY": pulsar_bombs(4, lambda data: bytes(cramjam.snappy.compress_raw(data))),
    "wrappers in wrappers": Case(
        wrappers, "limit: A batch is not unfolded", {"tables": list(TABLES), "payloads": True}
    ),
    "a packed file, gzip": packed_file(gzipped),
    "a packed file, zstd": packed_file(zstandards),
    "a packed file, lz4": packed_file(lz4_frames),
    "absurd blocks of pcapng": Case(absurd_blocks, "damaged after packet 0"),
    "announced TLS records": announced(443, b"\x16\3\1\x40\0\1\0\x3f\xfc\3\3", "limit: TLS records"),
    "many messages": bomb(4, zstd, 200_000, 1, CUT)._replace(limits={"message_bytes": 32 * MIB}),
}


@pytest.mark.parametrize("name", CASES)
def test_what_asks_for_memory_gets_what_is_allowed_and_a_finding(name: str, measure: Measure, tmp_path: Path) -> None:
    case = CASES[name]
    path = tmp_path / "capture.pcap"
    case.write(path)
    rows, peak, findings = measure(path, case.options, **case.limits)
    assert rows
    assert peak < Limits().memory_bytes
    assert case.finding is None or any(case.finding in found for found in findings), findings[:20]


def test_ended_connections_are_freed_before_the_capture_ends(measure: Measure, tmp_path: Path) -> None:
    few, many = tmp_path / "few.pcap", tmp_path / "many.pcap"
    limits = {"flows": 500, "endpoints": 1_000, "block_bytes": 64 * KIB, "decode_bytes": 64 * KIB}
    hostile.short_connections(few, 3_000, API_VERSIONS, port=9092)
    hostile.short_connections(many, 9_000, API_VERSIONS, port=9092)
    least, most = measure(few, None, **limits)[1], measure(many, None, **limits)[1]
    assert most - least < 6_000 * 4_000  # each takes more than that while it is open


def test_idle_connections_take_less_room_than_others(measure: Measure, tmp_path: Path) -> None:
    path = tmp_path / "idle.pcap"
    talk = [(0, API_VERSIONS), (1, struct.pack(">iihihhh", 16, 1, 0, 1, 18, 0, 3))] * 2
    hostile.idle_connections(path, 5_000, talk, port=9092)
    small = {"block_packets": 2_000, "decode_bytes": 128 * KIB}
    packed, ready = (measure(path, None, unpacked=most, **small)[1] for most in (1_000, 1_000_000))
    assert ready - packed > 4_000 * 400


def test_connections_kept_as_bytes_take_half_a_kilobyte(tmp_path: Path) -> None:
    path = tmp_path / "many.pcap"
    recorded = sorted(SAMPLES.glob("kafka-*.pcap"))
    for odd in ("kafka-made.pcap", "kafka-schemas.pcap"):  # written by hand, or of a mock broker and beside HTTP
        recorded.remove(SAMPLES / odd)
    hostile.copies(path, recorded, 30)
    limits = Limits(unpacked=100, block_packets=2_000, linger_ns=10_000_000_000_000)
    engine = Engine(Options(limits=limits), [str(path)])
    for block in Reader(str(path), 0, limits).blocks():
        engine.feed("", block)
        engine.decode()
    packed = [flow for flow in engine._trackers[""]._flows.values() if isinstance(flow, bytes)]
    assert len(packed) > 1_000
    assert sum(map(len, packed)) / len(packed) < 640


def test_eight_times_as_many_connections_need_little_more_memory(measure: Measure, tmp_path: Path) -> None:
    samples = sorted(SAMPLES.glob("kafka-*.pcap"))
    few, many = tmp_path / "few.pcap", tmp_path / "many.pcap"
    hostile.copies(few, samples, 6)
    hostile.copies(many, samples, 48)
    limits = {"block_packets": 2_000, "decode_bytes": 128 * KIB, "rows": 1_000, "linger_ns": 10_000_000_000_000}
    (rows, least, _), (more_rows, most, _) = (measure(path, None, unpacked=200, **limits) for path in (few, many))
    _, ready, _ = measure(many, None, unpacked=1_000_000, **limits)
    assert more_rows == 8 * rows
    assert most < 1.25 * least
    assert ready - least > 1.5 * (most - least)
