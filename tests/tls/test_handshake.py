"""What a handshake cost and whether it resumed a session: the same with keys and without."""

import ssl
from pathlib import Path

import dpkt
import pytest

from dissectors import dissect
from dissectors.tcp.chunk import CLIENT, SERVER
from dissectors.tls import KeyLog
from dissectors.tls.handshake import HandshakeWatch

from .sessions import CCS, WAYS, Crafted, Ends, Script, clear, listen

TALK = [(CLIENT, b"request"), (SERVER, b"answer")]
V12, V13 = ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3


def told(watch: HandshakeWatch) -> tuple[int | None, bool | None]:
    return watch.duration_ns, watch.resumed


def seen(script: Script, log: KeyLog | None, **how: object) -> tuple[int | None, bool | None]:
    """What is told of a session, with the keys and without; a write a nanosecond."""
    with_keys, without = (listen(script, one, **how).layer.handshake for one in (log, None))  # type: ignore[arg-type]
    assert told(with_keys) == told(without)
    return told(without)


@pytest.mark.parametrize("tickets", [True, False], ids=["ticket", "id"])
@pytest.mark.parametrize(("version", "full", "resumed"), [(V12, 3, 2), (V13, 2, 2)], ids=["1.2", "1.3"])
def test_a_full_handshake_and_a_resumed_one_are_told_apart(
    tmp_path: Path, version: ssl.TLSVersion, full: int, resumed: int, tickets: bool
) -> None:
    ends = Ends(tmp_path, version, tickets=tickets)
    first, client = ends.conversation(TALK)
    again, _ = ends.conversation(TALK, client.session)
    log = KeyLog.load(ends.keys)
    assert seen(first, log) == (full, False)
    assert seen(again, log) == (resumed, True)


def test_a_hello_that_is_retried_belongs_to_the_handshake(tmp_path: Path) -> None:
    ends = Ends(tmp_path, V13, curve="secp384r1")
    script, _ = ends.conversation(TALK)
    assert seen(script, KeyLog.load(ends.keys)) == (4, False)


@pytest.mark.parametrize("server_first", [True, False])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("version", [V12, V13], ids=["1.2", "1.3"])
def test_a_handshake_is_the_same_however_it_is_cut(
    tmp_path: Path, version: ssl.TLSVersion, way: str, server_first: bool
) -> None:
    ends = Ends(tmp_path, version)
    script, _ = ends.conversation(TALK)
    log = KeyLog.load(ends.keys)
    expected = seen(script, log, cut=WAYS[way])
    assert expected[0] is not None
    assert seen(script, log, cut=WAYS[way], server_first=server_first) == expected


def lose(script: Script, number: int) -> list[tuple[int, bytes | int]]:
    """The script, of which one write was not captured."""
    return [(side, len(data)) if i == number else (side, data) for i, (side, data) in enumerate(script)]


@pytest.mark.parametrize(("lost", "expected"), [(0, (None, None)), (1, (None, None)), (2, (None, False))])
def test_what_a_hole_hides_of_a_handshake_is_not_told(lost: int, expected: tuple[int | None, bool | None]) -> None:
    made = Crafted(0x1301)
    made.shake_hands()
    made.say(CLIENT, made.data[CLIENT].seal(b"request"))
    assert seen(made.script, made.log()) == (2, False)
    assert seen(lose(made.script, lost), made.log()) == expected  # type: ignore[arg-type]


@pytest.mark.parametrize("server_first", [True, False])
def test_a_hole_in_what_the_server_says_later_hides_nothing(server_first: bool) -> None:
    made = Crafted(0x1301)
    made.shake_hands()
    made.say(SERVER, made.data[SERVER].seal(b"ticket"))
    made.say(SERVER, made.data[SERVER].seal(b"answer"))
    script = lose(made.script, 3)
    assert seen(script, made.log(), server_first=server_first) == (2, False)  # type: ignore[arg-type]


def test_without_the_whole_certificate_it_is_not_known_whether_tls_1_2_resumed(tmp_path: Path) -> None:
    ends = Ends(tmp_path, V12)
    script, _ = ends.conversation(TALK)
    (_, hello), (_, flight) = script[:2]
    at = flight.index(b"broker.test")  # in the certificate, and its record goes on behind it
    torn = [(CLIENT, hello), (SERVER, flight[:at]), (SERVER, 11), (SERVER, flight[at + 11 :]), *script[2:]]
    assert seen(torn, KeyLog.load(ends.keys)) == (5, None)  # type: ignore[arg-type]


def test_a_client_that_refuses_a_certificate_has_shaken_no_hands() -> None:
    made = Crafted(0x1301)
    made.shake_hands()
    made.script.pop()
    made.say(CLIENT, CCS, made.handshake[CLIENT].seal(b"\2\x30", 21))  # unknown_ca
    assert seen(made.script, made.log()) == (None, False)


def test_early_data_looks_like_a_finished_and_hides_where_the_handshake_ends() -> None:
    made = Crafted(0x1301, early=True)
    made.say(CLIENT, made.early.seal(b"early bird, long enough to be taken for a Finished"))
    made.shake_hands()
    assert seen(made.script, made.log()) == (None, False)


def test_an_alert_instead_of_a_server_hello_ends_no_handshake() -> None:
    made = Crafted(0x1301)
    made.say(SERVER, clear(b"\2\x28", 21))
    assert seen(made.script, made.log()) == (None, None)


def test_connections_say_what_their_handshake_took_with_keys_and_without(tmp_path: Path) -> None:
    sample, bare = Path(__file__).parents[2] / "samples" / "kafka-tls.pcapng", tmp_path / "bare.pcap"
    hellos: dict[int, float] = {}  # by the client's port
    took: dict[int, int] = {}
    with sample.open("rb") as source, bare.open("wb") as target:
        writer = dpkt.pcap.Writer(target, nano=True)
        for time, packet in dpkt.pcapng.Reader(source):
            writer.writepkt(packet, time)
            tcp = dpkt.ethernet.Ethernet(packet).data.data
            if tcp.data[:1] == b"\x16" and tcp.data[5:6] == b"\x01":
                hellos[tcp.sport] = time
            elif tcp.sport in hellos and b"\x17\x03\x03" in tcp.data:
                took.setdefault(tcp.sport, round((time - hellos[tcp.sport]) * 1e6))
    assert took
    with_keys, without = (
        {row["client_port"]: row for row in dissect([str(path)], ("connections",))["connections"].to_pylist()}
        for path in (sample, bare)
    )
    for port, row in with_keys.items():
        assert row["protocol"] == "kafka"
        assert without[port]["protocol"] is None
        assert abs(row["tls_handshake_ns"] / 1000 - took[port]) <= 1
        assert row["tls_resumed"] is False
        assert abs(without[port]["tls_handshake_ns"] - row["tls_handshake_ns"]) < 1000
        assert without[port]["tls_resumed"] is False
