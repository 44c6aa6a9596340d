"""`extract --sanitise`: nothing of the original is in the file, and the same rows come of it."""

import base64
import binascii
import ipaddress
import json
import random
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.pulsar.spans import PulsarSpans
from dissectors.tcp.chunk import CLIENT as CLIENT_SENT
from dissectors.wire.codecs import decompress
from pipelines.answers.sanitise.frame_copy import FrameCopy
from pipelines.answers.sanitise.packets import _options
from pipelines.answers.sanitise.pseudonyms import KEPT, Pseudonyms
from pipelines.answers.sanitise.refit import _PACKERS, refitted
from tests.commands import attempt, run
from tests.iggy.test_snaplen import cut
from tests.kafka.wire import batch, produce, record
from tests.pulsar import wire
from tests.tcp.test_segments import vlan
from tests.wires import CLIENT, SERVER, T0, Packet, pcap, segment

FOLDER = Path(__file__).parents[2] / "samples"
MOCKED = "kafka-schemas.pcap"
"""Of a mock broker, whose answers to ApiVersions v3 are malformed, so what they say is overwritten; and of the loopback
interface, whose address stays."""
SAMPLES = sorted(set(FOLDER.glob("*.pcap*")) - {FOLDER / MOCKED})
PLAIN = [path for path in SAMPLES if "tls" not in path.name]
NAMES = Pseudonyms(b"k" * 32)
SOFTWARE = re.compile("version|software|sdk_name", re.I)  # fields that are kept

# columns that hold names, addresses, checksums or places, which are others in a sanitised capture
OTHERS = re.compile(
    r"file$|packet$|^site$|_ip$|^connection$|^exchange_id$|^checksum_(stored|computed)$|^producer$|^topics?$"
    r"|^client_id$|^group$|^message$|^evidence$|^sni$|^via$"
)


@pytest.fixture(scope="module")
def sanitised(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Each sample, sanitised."""
    folder = tmp_path_factory.mktemp("sanitised")
    made = {}
    for path in SAMPLES:
        made[path.name] = folder / f"{path.stem}.pcapng"
        run("extract", path, "--sanitise", "-o", made[path.name], "-q")
    return made


def meaning(path: Path, table: str) -> Counter[tuple[str, ...]]:
    """The rows of a table, without names and places."""
    rows = dissectors.dissect(path, [table])[table].to_pylist()
    return Counter(tuple(f"{name}={value}" for name, value in row.items() if not OTHERS.search(name)) for row in rows)


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_the_same_rows_come_of_a_sanitised_capture(path: Path, sanitised: dict[str, Path]) -> None:
    for table in ("exchanges", "batches", "errors", "connections", "findings"):
        assert meaning(sanitised[path.name], table) == meaning(path, table), table


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_a_capture_cut_by_the_snap_length_decodes_as_far_as_before(path: Path, tmp_path: Path) -> None:
    short, made = cut(path, tmp_path / "short.pcap", 100), tmp_path / "made.pcapng"
    run("extract", short, "--sanitise", "-o", made, "-q")
    for table in ("exchanges", "batches", "connections"):
        assert meaning(made, table) == meaning(short, table), table


@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_the_same_names_are_the_same_pseudonyms(path: Path, sanitised: dict[str, Path]) -> None:
    for table, column in (
        ("exchanges", "client_id"),
        ("exchanges", "group"),
        ("batches", "topic"),
        ("errors", "topic"),
    ):
        was, now = (
            Counter(Counter(row[column] for row in dissectors.dissect(one, [table])[table].to_pylist()).values())
            for one in (path, sanitised[path.name])
        )
        assert was == now


def texts(value: Any, field: str = "") -> Iterator[str]:
    if isinstance(value, dict):
        for name, item in value.items():
            yield from texts(item, name)
    elif isinstance(value, list):
        for item in value:
            yield from texts(item, field)
    elif isinstance(value, str) and not SOFTWARE.search(field):
        yield value


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.stem)
def test_no_name_key_payload_or_address_of_the_original_is_in_the_file(path: Path, sanitised: dict[str, Path]) -> None:
    raw = sanitised[path.name].read_bytes()
    tables = dissectors.dissect(path, ["exchanges", "messages", "connections"], full=True, payloads=True)
    found = set()
    for row in tables["exchanges"].to_pylist():
        for body in filter(None, (row["request"], row["response"])):
            for text in texts(json.loads(body)):
                found.add(text.encode())
                try:
                    found.add(base64.b64decode(text, validate=True))
                except (binascii.Error, ValueError):
                    continue
    for row in tables["messages"].to_pylist():
        found |= {bytes(row[name])[:16] for name in ("key", "value") if row[name]}
        found |= {text.encode() for text in texts(json.loads(row["headers"] or "[]"))}
    for row in tables["connections"].to_pylist():
        found |= {ipaddress.ip_address(row[name]).packed for name in ("client_ip", "server_ip")}
    hidden = [one for one in found if len(one) >= 4 and any(one) and set(one) != {ord("x")}]
    assert len(hidden) > 10
    left = [one for one in hidden if one in raw and one.decode("latin-1") not in KEPT and not one.startswith(b"\x7f")]
    assert [one for one in left if len(one) > 4 or b"." in one] == []


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
@pytest.mark.parametrize("path", PLAIN, ids=lambda path: path.stem)
def test_tshark_reads_the_same_of_each_packet_and_its_checksum(path: Path, sanitised: dict[str, Path]) -> None:
    was, now = (dissected_by_tshark(one) for one in (path, sanitised[path.name]))
    assert was == now
    assert len(was) > 50


def dissected_by_tshark(path: Path) -> list[str]:
    """What tshark reads of each packet of TCP: its checksum, and the heads of Kafka's frames.

    Not their bodies: of versions that it does not know, as of most here, it reads chance.
    """
    tcp = ("tcp.len", "tcp.seq", "tcp.ack", "tcp.flags", "tcp.checksum.status", "tcp.analysis.flags")
    fields = [part for name in (*tcp, "kafka.len", "kafka.correlation_id") for part in ("-e", name)]
    command = ["tshark", "-o", "tcp.check_checksum:TRUE", "-r", str(path), "-Y", "tcp", "-T", "fields", *fields]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


def test_forensics_finds_the_same_broken_bits(sanitised: dict[str, Path]) -> None:
    def broken(path: Path) -> list[Any]:
        result = attempt("forensics", path, "-f", "json", "-q")
        assert result.exit_code == 1, result.stderr
        found = [json.loads(line)["diagnosis"] for line in result.stdout.splitlines() if '"diagnosis"' in line]
        return [(one["pattern"], one["note"], [place["stream_offset"] for place in one["locations"]]) for one in found]

    path = next(path for path in PLAIN if "corrupted" in path.name)
    assert broken(path)[0][0] == "single_bit"
    assert broken(sanitised[path.name]) == broken(path)


def test_what_a_replicator_sent_is_still_known_by_its_source_position() -> None:
    def property_(key: str, value: str) -> wire.Field:
        return 4, [(1, key), (2, value)]

    own, noted = property_("customer", "17:4"), property_("__MSG_PROP_REPL_SOURCE_POSITION", "17:4")
    false = property_("__MSG_PROP_REPL_SOURCE_POSITION", "secret:1")
    sent = wire.send(1, wire.entry(wire.metadata(1, own, noted, false, (16, b"\0" * 7 + b"\5")), b"payload"))
    copy = FrameCopy(sent, NAMES)
    PulsarSpans().frame(copy, CLIENT_SENT, lambda correlation_id: None)
    made = copy.made()
    assert wire.field(*noted) in made
    assert b"\0" * 7 + b"\5" in made  # the version of a schema
    assert all(text not in made for text in (b"customer", b"secret", b"payload"))


def test_two_runs_choose_other_pseudonyms() -> None:
    assert Pseudonyms().name(b"orders") != Pseudonyms().name(b"orders")


def test_a_pseudonym_has_the_length_and_the_shape_of_the_name() -> None:
    name = NAMES.name(b"persistent://acme/billing/orders-partition-3")
    assert re.fullmatch(rb"persistent://[a-z0-9]{4}/[a-z0-9]{7}/[a-z0-9]{6}-partition-3", name)
    assert NAMES.name(b"acme/billing") == name[13:25]
    assert re.fullmatch(rb"pulsar://[a-z0-9]{12}:6650", NAMES.name(b"pulsar://broker1.acme:6650"))
    assert NAMES.name(b"") == b""
    assert NAMES.name(b"__consumer_offsets") == b"__consumer_offsets"


def test_short_names_do_not_get_one_pseudonym() -> None:
    names = [f"{letter}{digit}".encode() for letter in "abcdefghij" for digit in range(10)]
    assert len({NAMES.name(name) for name in names}) == len(names)


def test_an_address_has_one_pseudonym_as_a_number_and_as_text() -> None:
    every = {NAMES.address(0, 0xFFFF << 32 | 10 << 24 | n << 8 | 7)[1] for n in range(256)}
    assert len(every) == 256
    lo = NAMES.address(0, 0xFFFF << 32 | 0x0A470002)[1]
    assert NAMES.name(b"10.71.0.2") == str(ipaddress.IPv4Address(lo & 0xFFFFFFFF)).encode()
    for kept in ("127.0.0.1", "0.0.0.0", "224.0.0.5"):
        assert NAMES.name(kept.encode()) == kept.encode()
    assert NAMES.address(0, 1) == (0, 1)


@pytest.mark.parametrize("codec", ["gzip", "zlib", "snappy", "lz4", "lz4-block", "zstd"])
def test_other_data_is_compressed_to_just_as_many_bytes(codec: str) -> None:
    chance = random.Random(49)
    for _ in range(40):
        data, values = bytearray(), []
        for number in range(chance.randint(1, 40)):
            data += b"\0\1key-%d" % number
            start = len(data)
            data += bytes(chance.choices(b"abcdefgh{}:, 0123", k=chance.choice((4, 20, 200))))
            values.append((start, len(data)))
        compressed = _PACKERS[codec][0](b"", bytes(data))
        filled = FrameCopy(bytes(data), NAMES)
        filled.keep(0, len(data))
        for start, end in values:
            filled.data(start, end)
        made = refitted(codec, filled.made, filled.room, len(compressed))
        assert made is not None
        assert len(made) == len(compressed)
        unpacked = decompress(codec, made, limit=1 << 20, size=len(data))
        assert len(unpacked) == len(data)
        assert unpacked[: values[0][0]] == data[: values[0][0]]


def test_options_of_tcp_that_not_everybody_sends_are_hidden() -> None:
    size, signature = b"\x02\x04\x05\xb4", b"\x13\x12" + b"s" * 16
    assert _options(size + signature + b"\0\0") == size + b"\1" * 18 + b"\0\0"
    assert _options(b"\x13\x00" + b"s" * 6) == bytes(8)


def test_bytes_in_no_frame_are_sanitised_too(tmp_path: Path) -> None:
    request = produce(1, {("orders", 0): batch([record(0, b"k", b"v" * 50)])})
    stream = request + b"\xee" * 99 + produce(2, {("orders", 0): batch([record(0, b"k", b"v")])})
    capture, made = tmp_path / "junk.pcap", tmp_path / "sanitised.pcapng"
    capture.write_bytes(
        pcap([segment(CLIENT, SERVER, 1, 0, flags=2), segment(CLIENT, SERVER, 2, 1, stream, time=T0 + 1_000_000)])
    )
    run("extract", capture, "--sanitise", "-o", made, "-q")
    for table in ("exchanges", "batches", "findings"):
        assert meaning(made, table) == meaning(capture, table) != Counter()


def test_two_tenants_with_the_same_addresses_stay_two(tmp_path: Path) -> None:
    def talk(network: int, first: int, topic: str) -> list[Packet]:
        request = produce(1, {(topic, 0): batch([record(0, b"k", b"v" * 50)])})
        packets = [
            segment(CLIENT, SERVER, first, 0, flags=2),
            segment(SERVER, CLIENT, first + 500, first + 1, flags=18, time=T0 + 1_000_000),
            segment(CLIENT, SERVER, first + 1, first + 501, request, time=T0 + 2_000_000),
        ]
        return [vlan(packet, network) for packet in packets]

    capture, made = tmp_path / "tenants.pcap", tmp_path / "sanitised.pcapng"
    both = zip(talk(10, 1000, "orders"), talk(20, 70_000, "bills"), strict=True)
    capture.write_bytes(pcap([packet for pair in both for packet in pair]))
    run("extract", capture, "--sanitise", "-o", made, "-q")
    found = dissectors.dissect(made, ["exchanges"])["exchanges"].to_pylist()
    assert [(row["api"], row["records"], len(row["topics"][0])) for row in found] == [
        ("Produce", 1, len("orders")), ("Produce", 1, len("bills")),
    ]  # fmt: skip
    assert len({row["client_ip"] for row in found}) == 2
