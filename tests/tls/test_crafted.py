"""What no TLS library lets a test ask for: key updates, padding, early data, lost records, damaged ones."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.tcp.chunk import CLIENT, SERVER, Chunk, Gap, Resent
from dissectors.tls import KeyLog
from dissectors.tls.layer import TlsLayer

from .sessions import (
    AEADS,
    EARLY_DATA,
    FINISHED,
    KEY_UPDATE,
    RANDOM,
    WAYS,
    Crafted,
    Script,
    clear,
    client_hello,
    listen,
    message,
    server_hello,
)

SECRETS = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")


def plain_session(suite: int = 0x1301, records: int = 0) -> Crafted:
    made = Crafted(suite)
    made.shake_hands()
    for number in range(records):
        made.say(CLIENT, made.data[CLIENT].seal(f"<{number:04}>".encode() * (1 + number % 7)))
    return made


def plaintext(records: range) -> bytes:
    return b"".join(f"<{number:04}>".encode() * (1 + number % 7) for number in records)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("suite", AEADS)
def test_every_suite_of_tls_1_3_is_decrypted(suite: int, way: str) -> None:
    made = plain_session(suite)
    made.say(CLIENT, made.data[CLIENT].seal(b"request"), made.data[CLIENT].seal(b" and more"))
    made.say(SERVER, made.data[SERVER].seal(message(4, bytes(80)), 22), made.data[SERVER].seal(b"answer"))
    heard = listen(made.script, made.log(), WAYS[way])
    assert (heard.text(CLIENT), heard.text(SERVER)) == (b"request and more", b"answer")


@pytest.mark.parametrize("way", WAYS)
def test_keys_are_updated_in_either_direction(way: str) -> None:
    made = plain_session()
    client, server = made.data
    for turn in range(3):
        made.say(CLIENT, client.seal(b"c%d" % turn), client.seal(KEY_UPDATE, 22))
        client = client.updated()
        made.say(SERVER, server.seal(b"s%d" % turn))
    made.say(SERVER, server.seal(KEY_UPDATE, 22), server.updated().seal(b"!"))
    heard = listen(made.script, made.log(), WAYS[way])
    assert (heard.text(CLIENT), heard.text(SERVER)) == (b"c0c1c2", b"s0s1s2!")
    assert heard.layer.problem is None


def test_padding_is_taken_off_and_empty_records_say_nothing() -> None:
    made = plain_session()
    seal = made.data[CLIENT].seal
    made.say(CLIENT, seal(b"a\0", padding=100), seal(b"", padding=10), seal(b"", 0, 5), seal(b"b"))
    heard = listen(made.script, made.log())
    assert heard.text(CLIENT) == b"a\0b"
    assert heard.layer.problem is None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("accepted", [True, False])
def test_early_data_counts_only_if_the_server_accepted_it(accepted: bool, way: str) -> None:
    made = Crafted(0x1301, early=True)
    made.say(CLIENT, made.early.seal(b"early "), made.early.seal(b"bird "))
    end = [made.early.seal(message(5, b""), 22)] if accepted else []
    made.shake_hands(*([EARLY_DATA] if accepted else []), client_first=end)
    made.say(CLIENT, made.data[CLIENT].seal(b"worm"))
    heard = listen(made.script, made.log(), WAYS[way])
    assert heard.text(CLIENT) == (b"early bird worm" if accepted else b"worm")
    assert heard.layer.problem is None


def test_early_data_without_its_secret_is_passed_over() -> None:
    made = Crafted(0x1301, early=True)
    made.say(CLIENT, *(made.early.seal(b"early bird") for _ in range(20)))
    made.shake_hands(EARLY_DATA, client_first=[made.early.seal(message(5, b""), 22)])
    made.say(CLIENT, made.data[CLIENT].seal(b"worm"))
    assert listen(made.script, made.log("CLIENT_EARLY_TRAFFIC_SECRET")).text(CLIENT) == b"worm"


def test_a_log_with_application_secrets_only_is_enough() -> None:
    made = plain_session(records=3)
    made.say(SERVER, made.data[SERVER].seal(b"answer"))
    heard = listen(made.script, made.log(*SECRETS))
    assert (heard.text(CLIENT), heard.text(SERVER)) == (plaintext(range(3)), b"answer")


def test_a_log_without_application_secrets_is_reported() -> None:
    made = plain_session(records=3)
    heard = listen(made.script, made.log("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0"))
    assert (heard.text(CLIENT), heard.text(SERVER)) == (b"", b"")
    assert heard.layer.problem == "The key log lacks a secret of this session"


@pytest.mark.parametrize("records", [1, 2, 30])
def test_after_lost_records_the_next_one_is_found_and_the_hole_has_their_length(records: int) -> None:
    made = plain_session(records=records + 5)
    first = len(made.script) - records - 5
    lost = made.script[first + 2 : first + 2 + records]
    script = [*made.script[: first + 2], (CLIENT, sum(len(d) for _, d in lost)), *made.script[first + 2 + records :]]
    heard = listen(script, made.log())
    missing = plaintext(range(2, 2 + records))
    assert heard.text(CLIENT) == plaintext(range(2)) + b"_" * len(missing) + plaintext(range(2 + records, records + 5))
    assert [e.reason for e in heard.events[CLIENT] if isinstance(e, Gap)] == ["not captured"]


def cut_out(script: Script, start: int, length: int) -> list[tuple[int, bytes | int]]:
    """`length` bytes of what the client says, from `start` on, are not captured."""
    out: list[tuple[int, bytes | int]] = []
    at = 0
    for direction, data in script:
        if direction == SERVER:
            out.append((direction, data))
            continue
        before = data[: max(0, start - at)]
        after = data[max(0, start + length - at) :]
        inside = len(data) - len(before) - len(after)
        at += len(data)
        out += [(CLIENT, part) for part in (before, inside, after) if part]
    merged: list[tuple[int, bytes | int]] = []
    for direction, part in out:
        if isinstance(part, int) and merged and isinstance(merged[-1][1], int):
            merged[-1] = (direction, merged[-1][1] + part)
        else:
            merged.append((direction, part))
    return merged


HOLES = plain_session(records=40)
HELLOS = sum(len(data) for direction, data in HOLES.script[:-40] if direction == CLIENT)
LENGTH = sum(len(data) for direction, data in HOLES.script if direction == CLIENT)


@given(st.integers(HELLOS, LENGTH - 1), st.integers(1, 400), st.sampled_from(sorted(WAYS)))
def test_a_hole_anywhere_in_the_data_costs_the_records_that_it_touches_and_no_others(
    start: int, length: int, way: str
) -> None:
    length = min(length, LENGTH - start)
    heard = listen(cut_out(HOLES.script, start, length), HOLES.log(), WAYS[way])
    at, want = HELLOS, b""
    for number, (_, data) in enumerate(HOLES.script[-40:]):
        touched = at < start + length and at + len(data) > start
        plain = plaintext(range(number, number + 1))
        want += b"_" * len(plain) if touched else plain
        at += len(data)
    got = heard.text(CLIENT)
    if start + length < LENGTH - len(HOLES.script[-1][1]):
        assert got == want
    else:  # no record comes after the hole, so nothing shows how much of it was plaintext
        assert got.rstrip(b"_") == want.rstrip(b"_")


def test_a_hole_over_a_key_update_is_survived() -> None:
    made = plain_session(records=2)
    client = made.data[CLIENT]
    lost = [client.seal(b"lost"), client.seal(KEY_UPDATE, 22), client.updated().seal(b"as well")]
    after = client.updated()
    after.sequence = 1
    script = [*made.script, (CLIENT, sum(map(len, lost))), (CLIENT, after.seal(b"found") + after.seal(b" again"))]
    text = listen(script, made.log()).text(CLIENT)
    assert text.startswith(plaintext(range(2)) + b"_")
    assert text.endswith(b"_found again")


def test_a_damaged_record_costs_itself_only() -> None:
    made = plain_session(records=6)
    direction, data = made.script[-3]
    made.script[-3] = (direction, data[:8] + bytes([data[8] ^ 4]) + data[9:])
    heard = listen(made.script, made.log())
    missing = plaintext(range(3, 4))
    assert heard.text(CLIENT) == plaintext(range(3)) + b"_" * len(missing) + plaintext(range(4, 6))
    assert [e.reason for e in heard.events[CLIENT] if isinstance(e, Gap)] == ["not TLS"]


def test_a_damaged_header_costs_a_few_records() -> None:
    made = plain_session(records=40)
    direction, data = made.script[-30]
    made.script[-30] = (direction, b"\x97" + data[1:])
    text = listen(made.script, made.log()).text(CLIENT)
    assert text.startswith(plaintext(range(10)) + b"_")
    assert text.endswith(plaintext(range(12, 40)))


def test_a_handshake_that_was_not_captured_is_reported() -> None:
    made = plain_session(records=3)
    heard = listen(made.script[3:], made.log())
    assert heard.text(CLIENT) == b""
    assert heard.layer.problem == "The TLS handshake was not captured"


def test_a_hole_in_the_hello_is_reported() -> None:
    made = plain_session(records=3)
    heard = listen(cut_out(made.script, 20, 20), made.log())
    assert heard.text(CLIENT) == b""
    assert heard.layer.problem


def test_retransmissions_are_reported_in_plaintext_offsets() -> None:
    made = plain_session(records=4)
    layer = TlsLayer(made.log())
    offsets, order = [0, 0], itertools.count(1)
    spans = []
    events = []
    for direction, data in made.script:
        start = offsets[direction]
        offsets[direction] += len(data)
        spans.append((start, offsets[direction]))
        now = next(order)
        if len(spans) == len(made.script):  # sent again before it was complete
            events += layer.note_resent(direction, Resent(start + 3, start + 5, now))
        events += layer.receive(direction, Chunk.of(start, data, [start], [now], [now], [now]))
    start, end = spans[-3]
    events += layer.note_resent(CLIENT, Resent(start, end, next(order)))  # sent again after it was decrypted
    resent = [event for _, event in events if isinstance(event, Resent)]
    lengths = [len(plaintext(range(n, n + 1))) for n in range(4)]
    assert [(r.start, r.end) for r in resent] == [(sum(lengths[:3]), sum(lengths)), (lengths[0], sum(lengths[:2]))]


@given(st.lists(st.tuples(st.integers(0, 1), st.binary(min_size=1, max_size=80)), max_size=20))
def test_any_bytes_after_a_hello_are_survived(junk: Script) -> None:
    log = KeyLog.load(f"CLIENT_RANDOM {RANDOM.hex()} {'11' * 48}".encode())
    for start in ([], [(CLIENT, clear(client_hello()))], plain_session().script, plain_session(records=1).script[:3]):
        heard = listen([*start, *junk], log)
        heard.text(CLIENT)
        heard.text(SERVER)


@given(st.binary(max_size=60), st.integers(1, 2), st.integers(0, 1))
def test_any_hello_body_is_survived(body: bytes, kind: int, direction: int) -> None:
    hello = [(CLIENT, clear(client_hello()))] if direction == SERVER else []
    listen([*hello, (direction, clear(message(kind, body)))], KeyLog())


def test_a_hello_in_two_records_is_read() -> None:
    made = plain_session(records=1)
    hello = client_hello()
    made.script[0] = (CLIENT, clear(hello[:30]) + clear(hello[30:]))
    heard = listen(made.script, made.log())
    assert heard.layer.sni == "broker.test"
    assert heard.text(CLIENT) == plaintext(range(1))


def test_an_unknown_suite_is_reported() -> None:
    heard = listen([(CLIENT, clear(client_hello())), (SERVER, clear(server_hello(0x00FF)))], KeyLog())
    assert heard.layer.problem == "Cipher suite 0x00ff is not decrypted: only AEAD suites are"


def test_secrets_do_not_show_in_the_repr_of_a_key_log() -> None:
    made = Crafted(0x1301)
    assert repr(made.log()) == "<KeyLog: 5 secrets>"
    assert FINISHED
