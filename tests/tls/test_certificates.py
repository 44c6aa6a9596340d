"""Who a client says it is by its certificate: the subject, from handshakes with keys, or in clear up to TLS 1.2."""

import random
import ssl
import struct
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

import brokerscope
from dissectors import dissect
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.tls import KeyLog
from dissectors.tls.hello import subject
from tests.kafka.wire import request, response, text
from tests.wires import CLIENT as CLIENT_END
from tests.wires import SERVER as SERVER_END
from tests.wires import T0, pcap, segment

from .sessions import WAYS, Crafted, Ends, Script, certificate, listen

V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3
TALK = [(CLIENT, b"request"), (SERVER, b"answer")]
SUBJECT = r"CN=broker.test,O=Test\, Inc"


def vector(size: int, data: bytes) -> bytes:
    return len(data).to_bytes(size, "big") + data


def der(folder: Path) -> bytes:
    return x509.load_pem_x509_certificate(certificate(folder, "rsa").read_bytes()).public_bytes(Encoding.DER)


def captured(path: Path, script: Script) -> str:
    """A capture of what two ends said, a packet for each write."""
    sent, packets = [0, 0], []
    for number, (side, data) in enumerate(script):
        ends = (CLIENT_END, SERVER_END) if side == CLIENT else (SERVER_END, CLIENT_END)
        for at in range(0, len(data), 1400):
            piece = data[at : at + 1400]
            packets.append(segment(*ends, 1 + sent[side], 1 + sent[1 - side], piece, time=T0 + number * 1_000_000))
            sent[side] += len(piece)
    path.write_bytes(pcap(packets))
    return str(path)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [V12, V13], ids=["1.2", "1.3"])
def test_a_client_is_the_subject_of_its_certificate(tmp_path: Path, version: ssl.TLSVersion, way: str) -> None:
    ends = Ends(tmp_path, version, mutual=True)
    script, _ = ends.conversation(TALK)
    login = listen(script, KeyLog.load(ends.keys), cut=WAYS[way]).layer.login
    assert login is not None
    assert login.subject == SUBJECT


@pytest.mark.parametrize(("version", "seen"), [(V12, SUBJECT), (V13, None)], ids=["1.2", "1.3"])
def test_without_keys_a_certificate_is_read_where_it_is_in_clear(
    tmp_path: Path, version: ssl.TLSVersion, seen: str | None
) -> None:
    script, _ = Ends(tmp_path, version, mutual=True).conversation(TALK)
    path = captured(tmp_path / "a.pcap", script)
    told = dissect([path], ("events",))["events"].to_pylist()
    assert [one["subject"] for one in told] == ([seen] if seen else [])
    assert {(one["kind"], one["number"], one["protocol"]) for one in told} <= {("authenticated", None, None)}


def test_the_certificate_of_a_server_logs_nobody_in(tmp_path: Path) -> None:
    for version in (V12, V13):
        ends = Ends(tmp_path, version)
        script, _ = ends.conversation(TALK)
        assert listen(script, KeyLog.load(ends.keys)).layer.login is None


@pytest.mark.parametrize("version", [V12, V13], ids=["1.2", "1.3"])
def test_changes_and_clients_name_the_subject(tmp_path: Path, version: ssl.TLSVersion) -> None:
    topic = struct.pack(">i", 1) + text("orders")
    asked = request(20, 1, 1, topic + struct.pack(">i", 1000), "cleaner")
    answer = response(20, 1, 1, struct.pack(">i", 0) + topic + b"\0\0")
    ends = Ends(tmp_path, version, mutual=True)
    script, _ = ends.conversation([(CLIENT, asked), (SERVER, answer)])
    capture = brokerscope.open(captured(tmp_path / "a.pcap", script), keylog=str(ends.keys))
    (change,) = capture.changes().to_pylist()
    assert (change["action"], change["principal"], change["result"]) == ("deleted", SUBJECT, "ok")
    (client,) = capture.sql("select * from t_clients").to_pylist()
    assert client["principals"] == [SUBJECT]


def test_an_empty_list_of_certificates_names_nobody() -> None:
    assert subject(vector(3, b""), tls13=False) is None
    assert subject(b"\0" + vector(3, b""), tls13=True) is None


def test_hostile_certificates_name_nobody_and_raise_nothing_else(tmp_path: Path) -> None:
    chance, good = random.Random(61), der(tmp_path)
    for _ in range(2000):
        bad = bytearray(good[: chance.choice((len(good), chance.randrange(len(good))))])
        for _ in range(chance.randrange(4)):
            if bad:
                bad[chance.randrange(len(bad))] = chance.randrange(256)
        name = subject(vector(3, vector(3, bytes(bad))), tls13=False)
        assert name is None or isinstance(name, str)


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\x05abc", b"\xff" * 40, vector(3, b"\xff\xff\xff")])
def test_a_certificate_message_that_is_cut_off_costs_the_name_and_nothing_else(body: bytes) -> None:
    made = Crafted(0x1301)
    made.shake_hands(client_first=[made.handshake[CLIENT].seal(b"\x0b" + vector(3, body), 22)])
    made.say(CLIENT, made.data[CLIENT].seal(b"request"))
    heard = listen(made.script, made.log())
    assert heard.layer.login is None
    assert heard.text(CLIENT) == b"request"
