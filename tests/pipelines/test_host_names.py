"""Names of machines stand beside their addresses: from a file, from DNS answers, from name blocks of pcapng."""

import ipaddress
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from dissectors.capture.host_names import host_names
from dissectors.errors import InputError
from dissectors.limits import Limits
from pipelines.formats import hosts
from tests.commands import SAMPLES, objects, run
from tests.kafka.made_sample import BROKER, NAME, START, dns_answer
from tests.wires import Packet, ethernet, ip, pcap

MADE = SAMPLES / "kafka-made.pcap"


@pytest.fixture(autouse=True)
def _none_are_left() -> Iterator[None]:
    yield
    hosts.use({})


def told(tmp_path: Path, *packets: Packet) -> dict[str, str]:
    path = tmp_path / "a.pcap"
    path.write_bytes(pcap(packets))
    return host_names([str(path)], Limits())


def test_an_answer_of_dns_names_an_address(tmp_path: Path) -> None:
    assert told(tmp_path, dns_answer(START, "a.example", "10.0.0.1")) == {"10.0.0.1": "a.example"}


def test_an_answer_in_a_tunnel_names_an_address(tmp_path: Path) -> None:
    inner = dns_answer(START, "a.example", "10.0.0.1").data
    vxlan = struct.pack(">HHHHII", 40000, 4789, 16 + len(inner), 0, 0x08 << 24, 7 << 8) + inner
    tagged = inner[:12] + b"\x81\x00\x00\x05" + inner[12:]
    for data in (ethernet(ip("10.9.0.1", "10.9.0.2", 17, vxlan)), tagged):
        assert told(tmp_path, Packet(START, data, len(data))) == {"10.0.0.1": "a.example"}


@pytest.mark.parametrize("keep", range(42, 100, 3))
def test_an_answer_that_is_cut_tells_what_is_whole_or_nothing(tmp_path: Path, keep: int) -> None:
    whole = dns_answer(START, "a.example", "10.0.0.1")
    found = told(tmp_path, Packet(START, whole.data[:keep], whole.wire))
    assert found in ({}, {"10.0.0.1": "a.example"})


def test_a_name_that_points_to_itself_ends(tmp_path: Path) -> None:
    whole = dns_answer(START, "a.example", "10.0.0.1")
    looping = whole.data.replace(b"\xc0\x0c", b"\xc0" + bytes([12 + 15]))
    assert told(tmp_path, Packet(START, looping, whole.wire)) == {}


def test_what_is_no_answer_from_port_53_names_nothing(tmp_path: Path) -> None:
    whole = dns_answer(START, "a.example", "10.0.0.1")
    asked = whole.data.replace(b"\x81\x80", b"\x01\x00")
    other = whole.data.replace(struct.pack(">HH", 53, 50000), struct.pack(">HH", 54, 50000))
    assert told(tmp_path, Packet(START, asked, whole.wire), Packet(START, other, whole.wire)) == {}


def test_a_name_block_of_pcapng_names_an_address(tmp_path: Path) -> None:
    def block(kind: int, body: bytes) -> bytes:
        body += b"\0" * (-len(body) % 4)
        size = struct.pack("<I", len(body) + 12)
        return struct.pack("<I", kind) + size + body + size

    value = ipaddress.ip_address("10.0.0.1").packed + b"a.example\0"
    record = struct.pack("<HH", 1, len(value)) + value + b"\0" * (-len(value) % 4) + bytes(4)
    frame = dns_answer(START, "b.example", "10.0.0.2").data
    packet = struct.pack("<IIIII", 0, 0, 0, len(frame), len(frame)) + frame
    head = block(0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1)) + block(1, struct.pack("<HHI", 1, 0, 0))
    path = tmp_path / "a.pcapng"
    path.write_bytes(head + block(6, packet) + block(4, record))
    assert host_names([str(path)], Limits()) == {"10.0.0.1": "a.example", "10.0.0.2": "b.example"}


@pytest.mark.parametrize(
    "text",
    [
        "127.0.0.1 localhost\n10.0.0.7  app-1 app-1.example  # ours\n",
        "NAME    READY   STATUS    RESTARTS       AGE   IP         NODE\n"
        "app-1   1/1     Running   2 (3h ago)     5d    10.0.0.7   node-1\n",
        "ip,name\n10.0.0.7,app-1\n",
        "name,zone,ip\napp-1,a,10.0.0.7\n",
        "10.0.0.7,app-1\n",
    ],
)
def test_files_of_names_are_read_in_the_forms_that_people_have(tmp_path: Path, text: str) -> None:
    path = tmp_path / "names"
    path.write_text(text)
    assert hosts.read(str(path))["10.0.0.7"] == "app-1"


def test_a_file_without_names_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "names"
    path.write_text("nothing here\n")
    with pytest.raises(InputError, match="no names"):
        hosts.read(str(path))
    assert "cannot be read" in run("summary", MADE, "--hosts", tmp_path / "missing", code=3)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("on 10.0.0.7.", "on 10.0.0.7 (app-1)."),
        ("of 10.0.0.7: no", "of 10.0.0.7 (app-1): no"),
        ("10.0.0.7:9092", "10.0.0.7:9092 (app-1)"),
        ("10.0.0.7:1>10.0.0.8:9092", "10.0.0.7:1>10.0.0.8:9092 (app-1 > ?)"),
        ("110.0.0.7 and 10.0.0.71", "110.0.0.7 and 10.0.0.71"),
        ("[fd00::1]:9092", "[fd00::1]:9092 (six)"),
        ("run `follow 10.0.0.7:1`", "run `follow 10.0.0.7:1`"),
    ],
)
def test_a_name_stands_beside_its_address(text: str, shown: str) -> None:
    hosts.use({"10.0.0.7": "app-1", "fd00::1": "six"})
    assert hosts.with_names(text) == shown


def test_commands_show_names_of_captures_and_files(tmp_path: Path) -> None:
    names = tmp_path / "hosts"
    names.write_text("10.74.0.14 laptop-9\n")
    assert f"{BROKER.ip}:9092 ({NAME})" in run("top", MADE, "--by", "broker")
    assert "intruder on 10.74.0.14 (laptop-9)" in run("summary", MADE, "--hosts", names)
    (broker, *_) = objects("top", MADE, "--by", "broker")
    assert broker["key"] == f"{BROKER.ip}:9092"
    assert broker["host_names"] == {BROKER.ip: NAME}


def test_out_keeps_the_names_and_its_page_shows_them(tmp_path: Path) -> None:
    names, out = tmp_path / "hosts", tmp_path / "out"
    names.write_text("10.74.0.14 laptop-9\n")
    run("analyze", MADE, "-o", out, "--engine", "local", "-q", "--hosts", names)
    hosts.use({})
    assert "intruder on 10.74.0.14 (laptop-9)" in run("summary", out)
    assert "intruder on 10.74.0.14 (laptop-9)" in (out / "report.html").read_text()


def test_records_in_json_keep_their_addresses_and_hold_the_names_beside() -> None:
    rows = objects("dissect", MADE)
    assert {row["server_ip"] for row in rows if row.get("host_names")} == {BROKER.ip}
    assert {tuple(row["host_names"].items()) for row in rows if "host_names" in row} == {((BROKER.ip, NAME),)}


def test_captures_behind_urls_are_asked_for_names_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import fsspec

    url = "memory://captures/made.pcap"
    with fsspec.open(url, "wb") as file:
        file.write(MADE.read_bytes())
    asked: list[Sequence[str]] = []

    def noted(paths: Sequence[str], limits: Limits) -> dict[str, str]:
        asked.append(paths)
        return host_names(paths, limits)

    monkeypatch.setattr("dissectors.capture.host_names.host_names", noted)
    assert f"{BROKER.ip}:9092 ({NAME})" in run("client", "billing", url)
    assert asked == [[url]]
