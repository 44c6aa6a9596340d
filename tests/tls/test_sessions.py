"""Sessions between two real ends (OpenSSL), as they are and cut in every way."""

import itertools
import ssl
from pathlib import Path

import pytest

from dissectors.tcp.chunk import CLIENT, SERVER, Chunk
from dissectors.tls import KeyLog, hello

from .sessions import WAYS, Ends, listen

TALK = [
    (CLIENT, b"\0\0\0\x07request"),
    (SERVER, b"\0\0\0\x06answer"),
    (CLIENT, bytes(range(256)) * 200),  # several records
    (SERVER, b"x"),
    (CLIENT, b"bye"),
]
SAID = [b"".join(data for side, data in TALK if side == direction) for direction in (CLIENT, SERVER)]
TLS12_SUITES = [
    ("ECDHE-RSA-AES128-GCM-SHA256", "rsa"),
    ("ECDHE-RSA-AES256-GCM-SHA384", "rsa"),
    ("ECDHE-RSA-CHACHA20-POLY1305", "rsa"),
    ("ECDHE-ECDSA-AES128-GCM-SHA256", "ecdsa"),
    ("ECDHE-ECDSA-AES256-GCM-SHA384", "ecdsa"),
    ("ECDHE-ECDSA-CHACHA20-POLY1305", "ecdsa"),
    ("ECDHE-ECDSA-AES128-CCM", "ecdsa"),
    ("ECDHE-ECDSA-AES256-CCM8", "ecdsa"),
    ("AES128-GCM-SHA256", "rsa"),
    ("AES256-GCM-SHA384", "rsa"),
]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("ciphers", "kind"), TLS12_SUITES)
def test_tls_1_2_is_decrypted_however_it_is_cut(tmp_path: Path, ciphers: str, kind: str, way: str) -> None:
    ends = Ends(tmp_path, ssl.TLSVersion.TLSv1_2, ciphers, kind)
    script, client = ends.conversation(TALK)
    heard = listen(script, KeyLog.load(ends.keys), WAYS[way])
    assert [heard.text(CLIENT), heard.text(SERVER)] == SAID
    assert (heard.layer.version, heard.layer.sni, heard.layer.alpn) == ("TLS 1.2", "broker.test", "kafka")
    assert heard.layer.problem is None
    assert client.cipher()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("curve", [None, "secp384r1"], ids=["", "hello-retry"])
def test_tls_1_3_is_decrypted_however_it_is_cut(tmp_path: Path, curve: str | None, way: str) -> None:
    ends = Ends(tmp_path, ssl.TLSVersion.TLSv1_3, curve=curve)
    script, client = ends.conversation(TALK)
    heard = listen(script, KeyLog.load(ends.keys), WAYS[way])
    assert [heard.text(CLIENT), heard.text(SERVER)] == SAID
    assert (heard.layer.version, heard.layer.sni, heard.layer.alpn) == ("TLS 1.3", "broker.test", "kafka")
    named = client.cipher()
    assert named
    assert heard.layer.cipher == named[0]
    retried = any(hello.RETRY_RANDOM in data for direction, data in script if direction == SERVER)
    assert retried == (curve is not None)


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
@pytest.mark.parametrize("tickets", [True, False], ids=["ticket", "id"])
def test_a_resumed_session_is_decrypted(tmp_path: Path, version: ssl.TLSVersion, tickets: bool) -> None:
    ends = Ends(tmp_path, version, tickets=tickets)
    _, client = ends.conversation(TALK)
    script, again = ends.conversation(TALK, client.session)
    assert again.session_reused
    heard = listen(script, KeyLog.load(ends.keys))
    assert [heard.text(CLIENT), heard.text(SERVER)] == SAID


@pytest.mark.parametrize("tickets", [True, False], ids=["ticket", "id"])
def test_a_resumed_session_needs_only_the_master_secret_of_the_first(tmp_path: Path, tickets: bool) -> None:
    ends = Ends(tmp_path, ssl.TLSVersion.TLSv1_2, tickets=tickets)
    first, client = ends.conversation(TALK)
    log = KeyLog.load(ends.keys)
    second, again = ends.conversation(TALK, client.session)
    assert again.session_reused
    assert listen(second, log).layer.problem == "The key log lacks the master secret of this session"
    assert listen(first, log).text(CLIENT) == SAID[CLIENT]
    assert listen(second, log).text(CLIENT) == SAID[CLIENT]


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_the_interleaving_of_the_directions_does_not_matter(tmp_path: Path, version: ssl.TLSVersion) -> None:
    ends = Ends(tmp_path, version)
    script, _ = ends.conversation(TALK)
    heard = listen(script, KeyLog.load(ends.keys), server_first=True)
    assert [heard.text(CLIENT), heard.text(SERVER)] == SAID


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_the_client_is_who_says_hello(tmp_path: Path, version: ssl.TLSVersion) -> None:
    ends = Ends(tmp_path, version)
    script, _ = ends.conversation(TALK)
    turned = [(1 - direction, data) for direction, data in script]
    heard = listen(turned, KeyLog.load(ends.keys))
    assert [heard.text(SERVER), heard.text(CLIENT)] == SAID
    assert heard.layer.client == SERVER


@pytest.mark.parametrize("log", [None, KeyLog()], ids=["no key log", "a key log of other sessions"])
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_without_keys_version_and_server_name_are_reported(
    tmp_path: Path, version: ssl.TLSVersion, log: KeyLog | None
) -> None:
    script, _ = Ends(tmp_path, version).conversation(TALK)
    heard = listen(script, log)
    assert (heard.text(CLIENT), heard.text(SERVER)) == (b"", b"")
    assert heard.layer.version == ("TLS 1.2" if version == ssl.TLSVersion.TLSv1_2 else "TLS 1.3")
    assert heard.layer.sni == "broker.test"
    assert heard.layer.problem


def test_a_wrong_master_secret_is_reported_and_yields_nothing(tmp_path: Path) -> None:
    ends = Ends(tmp_path, ssl.TLSVersion.TLSv1_2)
    script, _ = ends.conversation(TALK * 20)
    lines = ends.keys.read_text().splitlines()
    wrong = "\n".join(" ".join([*line.split()[:2], "00" * 48]) for line in lines if line.startswith("CLIENT_RANDOM"))
    heard = listen(script, KeyLog.load(wrong.encode()))
    assert (heard.text(CLIENT), heard.text(SERVER)) == (b"", b"")
    assert heard.layer.problem == "The records do not verify under the secrets of the key log"


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def test_marks_lead_from_plaintext_to_the_packets_of_its_record(tmp_path: Path, version: ssl.TLSVersion) -> None:
    ends = Ends(tmp_path, version)
    script, _ = ends.conversation([(CLIENT, b"a" * 50), (CLIENT, b"b" * 50)])
    record = script[-1][1]
    cut_at = [0, 10, 13, len(record) - 4, len(record)]
    split = [(CLIENT, record[a:b]) for a, b in itertools.pairwise(cut_at)]
    heard = listen(script[:-1] + split, KeyLog.load(ends.keys))
    assert heard.text(CLIENT) == b"a" * 50 + b"b" * 50
    chunk = heard.events[CLIENT][-1]
    assert isinstance(chunk, Chunk)
    assert chunk.offset == 50
    order = len(script) - 1  # of the record's first segment, less one
    assert list(chunk.orders) == [order + 4] * len(chunk.starts), "the record became complete with its last segment"
    assert chunk.times[0] == order + 1, "the first byte is the record's first byte"
    assert chunk.times[-1] == order + 4, "the last byte is the record's last byte"
    assert chunk.starts[-1] == 99
    assert order + 3 in chunk.times, "bytes between keep the packet in which they lay"
