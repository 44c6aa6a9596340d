"""Which answer belongs to which request."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.pulsar import PROTOCOL, api
from dissectors.pulsar.commands import ANSWER, COMMANDS, INITIAL_RESPONSE, KEYS, ONE_WAY, REQUEST, request_of
from dissectors.records import Exchange
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.pulsar import wire

BASE = api.DESCRIPTOR.message_types_by_name["BaseCommand"]
ENTRY = wire.entry(wire.metadata(), b"payload")


def frame(code: int, **ids: int) -> bytes:
    """A command with these ids."""
    fields = BASE.fields_by_number[code].message_type.fields_by_name
    numbered = [(fields[name].number, value) for name, value in ids.items()]
    return wire.carrying(code, numbered, ENTRY) if code in (6, 9) else wire.simple(code, *numbered)


def shown(sink: Sink) -> list[tuple[str | None, str | None, int | None]]:
    return [(row.kind, row.api, row.correlation_id) for row in sink.exchanges]


PAIRS = [
    (command.code, next(c.code for c in COMMANDS.values() if c.name == answer))
    for command in COMMANDS.values()
    for answer in command.answers
]


def sides(code: int) -> tuple[int, int]:
    return (CLIENT, SERVER) if COMMANDS[code].sender & 1 else (SERVER, CLIENT)


def test_the_table_says_who_sends_every_command_of_the_schema() -> None:
    types = BASE.enum_types_by_name["Type"].values_by_number
    assert {code: command.name for code, command in COMMANDS.items()} == {n: v.name for n, v in types.items()}


def test_every_key_is_made_of_fields_that_the_command_has() -> None:
    for command in COMMANDS.values():
        fields = BASE.fields_by_number[command.code].message_type.fields_by_name
        assert set(KEYS.get(command.by, ())) <= set(fields), command.name


def test_every_answer_is_expected_by_some_request() -> None:
    expected = {name for command in COMMANDS.values() for name in command.answers}
    answers = {c.name for c in COMMANDS.values() if c.part in (ANSWER, INITIAL_RESPONSE)}
    assert answers - expected == {"ERROR"}


@pytest.mark.parametrize(("request_code", "answer"), PAIRS)
def test_a_request_and_its_answer_are_a_call(request_code: int, answer: int) -> None:
    ids = {name: 40 + i for i, name in enumerate(KEYS[COMMANDS[request_code].by])}
    a, b = sides(request_code)
    sink = feed_every_way(PROTOCOL, [(a, frame(request_code, **ids)), (b, frame(answer, **ids))])
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.api_code) == ("call", COMMANDS[request_code].name, request_code)
    assert row.correlation_id == (list(ids.values())[-1] if ids else None)
    assert (row.request_ns, row.wait_ns, row.response_ns, row.total_ns) == (0, 1_000_000, 0, 1_000_000)
    assert row.status == ("error" if answer == wire.SEND_ERROR else "ok")


@pytest.mark.parametrize(("request_code", "answer"), PAIRS)
def test_an_answer_with_another_id_answers_something_else(request_code: int, answer: int) -> None:
    names = KEYS[COMMANDS[request_code].by]
    if not names:
        pytest.skip("it has no id")
    a, b = sides(request_code)
    sink, _ = feed(
        PROTOCOL,
        [
            (a, frame(request_code, **dict.fromkeys(names, 1))),
            (b, frame(answer, **{**dict.fromkeys(names, 1), names[-1]: 2})),
        ],
    )
    only = request_of(COMMANDS[answer])
    kind = "push" if COMMANDS[answer].part is INITIAL_RESPONSE else "orphan"
    name = only.name if only is not None and kind == "orphan" else COMMANDS[answer].name
    unanswered = ("unanswered", COMMANDS[request_code].name, 1)
    if kind == "orphan" and only is None:  # several requests have this answer: no row can say which
        assert shown(sink) == [unanswered]
        assert "orphan" in [finding.kind for finding in sink.findings]
    else:
        assert shown(sink) == [(kind, name, 2), unanswered]


@pytest.mark.parametrize("code", [c.code for c in COMMANDS.values() if c.part is ONE_WAY])
def test_a_command_without_an_answer_is_oneway_from_a_client_and_a_push_from_a_broker(code: int) -> None:
    side, _ = sides(code)
    sink = feed_every_way(PROTOCOL, [(side, frame(code))])
    assert shown(sink) == [("oneway" if side == CLIENT else "push", COMMANDS[code].name, None)]


@pytest.mark.parametrize("code", [c.code for c in COMMANDS.values() if c.part is REQUEST and c.by == "request"])
def test_an_error_answers_every_request_with_a_request_id(code: int) -> None:
    sink = feed_every_way(PROTOCOL, [(CLIENT, frame(code, request_id=9)), (SERVER, wire.error(9, 6, "later"))])
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.status) == ("call", COMMANDS[code].name, "error")
    assert (row.error_code, row.error_name, row.error_count) == (6, "ServiceNotReady", 1)
    (found,) = sink.errors
    assert (found.api, found.code, found.name, found.retriable, found.message) == (
        COMMANDS[code].name,
        6,
        "ServiceNotReady",
        True,
        "later",
    )


def test_a_refused_login_is_the_answer_to_connect_whatever_its_id() -> None:
    for id_ in (wire.ALL_ONES, 0, 1):
        sink = feed_every_way(PROTOCOL, [(CLIENT, wire.connect()), (SERVER, wire.error(id_, 3, "who are you"))])
        (row,) = sink.exchanges
        assert (row.kind, row.api, row.error_name) == ("call", "CONNECT", "AuthenticationError")


def test_a_login_goes_on_through_a_challenge() -> None:
    script = [
        (CLIENT, wire.connect()),
        (SERVER, wire.simple(wire.AUTH_CHALLENGE, (2, [(1, "sasl"), (2, b"c1")]))),
        (CLIENT, wire.simple(wire.AUTH_RESPONSE, (2, [(1, "sasl"), (2, b"r1")]))),
        (SERVER, wire.connected()),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("call", "AUTH_CHALLENGE", None), ("call", "CONNECT", None)]


def test_either_side_may_ping() -> None:
    script = [
        (SERVER, wire.simple(wire.PING)),
        (CLIENT, wire.simple(wire.PING)),
        (SERVER, wire.simple(wire.PONG)),
        (CLIENT, wire.simple(wire.PONG)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(r.kind, r.api, r.total_ns) for r in sink.exchanges] == [
        ("call", "PING", 1_000_000),
        ("call", "PING", 3_000_000),
    ]


def test_a_pong_after_a_hole_answers_the_latest_ping() -> None:
    ping, pong = wire.simple(wire.PING), wire.simple(wire.PONG)
    script = [(CLIENT, ping), (SERVER, len(pong)), (CLIENT, ping), (SERVER, pong)]
    sink, _ = feed(PROTOCOL, script)
    assert [(r.kind, r.total_ns) for r in sink.exchanges] == [("unanswered", None), ("call", 1_000_000)]


def test_a_producer_that_waits_for_an_exclusive_topic_is_one_long_call() -> None:
    script = [
        (CLIENT, wire.producer(5)),
        (SERVER, wire.producing(5, "p-1", (6, False))),
        (SERVER, wire.producing(5, "p-1", (6, True))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(r.kind, r.api, r.long_poll) for r in sink.exchanges] == [
        ("push", "PRODUCER_SUCCESS", None),
        ("call", "PRODUCER", True),
    ]
    assert sink.exchanges[0].topics == sink.exchanges[1].topics == ["persistent://a/b/orders"]


def test_a_producer_that_is_not_ready_is_answered_before_another_with_its_id() -> None:
    waits, ready = wire.producing(2, "p-1", (6, False)), wire.producing(2)
    script = [(CLIENT, wire.producer(2)), (SERVER, waits), (CLIENT, wire.producer(2)), (SERVER, ready)]
    sink = feed_every_way(PROTOCOL, script)
    assert [(r.kind, r.total_ns) for r in sink.exchanges] == [
        ("push", None), ("call", 3_000_000), ("unanswered", None),
    ]  # fmt: skip


def test_a_lookup_that_failed_has_the_error_in_its_answer() -> None:
    failed = wire.simple(wire.LOOKUP_RESPONSE, (4, 11), (3, 2), (6, 5), (7, "no"))
    sink = feed_every_way(PROTOCOL, [(CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 11))), (SERVER, failed)])
    assert [(r.kind, r.api, r.error_code) for r in sink.exchanges] == [("call", "LOOKUP", 5)]


def test_chunks_of_one_message_share_a_sequence_id_and_are_answered_in_order() -> None:
    script = [(CLIENT, wire.send(4, ENTRY)) for _ in range(3)]
    script += [(SERVER, wire.receipt(4, 7, number)) for number in range(3)]
    sink = feed_every_way(PROTOCOL, script)
    assert [r.total_ns for r in sink.exchanges] == [3_000_000] * 3
    assert [b.position for b in sink.batches] == ["7:0", "7:1", "7:2"]


def test_sends_of_two_producers_with_one_sequence_id_are_kept_apart() -> None:
    script = [
        (CLIENT, wire.send(0, ENTRY, producer=1)),
        (CLIENT, wire.send(0, ENTRY, producer=2)),
        (SERVER, wire.receipt(0, 7, 20, producer=2)),
        (SERVER, wire.receipt(0, 7, 10, producer=1)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert [(r.total_ns, b.position) for r, b in zip(sink.exchanges, sink.batches, strict=True)] == [
        (1_000_000, "7:20"),
        (3_000_000, "7:10"),
    ]


def test_lookups_and_other_requests_may_count_their_ids_separately() -> None:
    script = [
        (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 26))),
        (CLIENT, wire.producer(26)),
        (SERVER, wire.producing(26)),
        (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 1), (4, 26))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("call", "PRODUCER", 26), ("call", "LOOKUP", 26)]


def test_an_error_is_for_the_request_that_has_no_other_way_to_fail() -> None:
    script = [
        (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 26))),
        (CLIENT, wire.producer(26)),
        (SERVER, wire.error(26, 16)),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("call", "PRODUCER", 26), ("unanswered", "LOOKUP", 26)]


def test_a_close_by_the_broker_expects_no_answer() -> None:
    sink = feed_every_way(PROTOCOL, [(SERVER, wire.simple(wire.CLOSE_CONSUMER, (1, 3), (2, wire.ALL_ONES)))])
    assert shown(sink) == [("push", "CLOSE_CONSUMER", -1)]


def test_an_ack_expects_an_answer_only_if_it_carries_a_request_id() -> None:
    script = [
        (CLIENT, wire.simple(wire.ACK, (1, 1), (2, 0), (3, [(1, 7), (2, 0)]))),
        (CLIENT, wire.simple(wire.ACK, (1, 1), (2, 0), (3, [(1, 7), (2, 1)]), (8, 30))),
        (SERVER, wire.simple(wire.ACK_RESPONSE, (1, 1), (6, 30))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("oneway", "ACK", None), ("call", "ACK", 30)]


def test_the_first_layout_answers_the_lookup_and_later_ones_are_pushes() -> None:
    script = [(CLIENT, wire.simple(70, (1, 8), (2, "topic://a/b/c")))]
    script += [(SERVER, wire.simple(71, (1, 8)))] * 3
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("call", "SCALABLE_TOPIC_LOOKUP", 8)] + [("push", "SCALABLE_TOPIC_UPDATE", 8)] * 2


def test_a_command_newer_than_the_table_is_matched_by_its_request_id_and_is_one_finding() -> None:
    script = [
        (CLIENT, wire.simple(120, (1, 6), (2, "what is this"))),
        (SERVER, wire.simple(121, (1, 6))),
        (CLIENT, wire.simple(120, (1, 7))),
        (SERVER, wire.success(7)),
        (CLIENT, wire.simple(122, (3, "no number"))),
        (SERVER, wire.simple(300, (1, 99))),
    ]
    sink = feed_every_way(PROTOCOL, script)
    assert shown(sink) == [("call", "120", 6), ("call", "120", 7), ("oneway", "122", None), ("push", "300", 99)]
    found = [f for f in sink.findings if f.kind == "unknown_api"]
    assert [f.message for f in found] == [f"Command type {n} is not known" for n in (120, 121, 122, 300)]


def test_ids_beyond_63_bits_are_shown_signed() -> None:
    big = (1 << 64) - 5
    sink = feed_every_way(PROTOCOL, [(CLIENT, wire.producer(big)), (SERVER, wire.producing(big))])
    assert shown(sink) == [("call", "PRODUCER", -5)]


requests = st.lists(
    st.tuples(st.sampled_from([wire.LOOKUP, wire.PARTITIONED_METADATA]), st.integers(0, 1 << 63)),
    unique=True,
    max_size=8,
)


@settings(max_examples=60)
@given(requests, st.data())
def test_every_request_has_its_own_answer_in_whatever_order(sent: list[tuple[int, int]], data: st.DataObject) -> None:
    answers = data.draw(st.permutations(sent))
    script = [(CLIENT, wire.simple(code, (1, "t"), (2, id_))) for code, id_ in sent]
    for code, id_ in answers:
        number = 4 if code == wire.LOOKUP else 2
        script.append((SERVER, wire.simple(code + 1, (3, 0), (number, id_))))
    sink = feed_every_way(PROTOCOL, script)
    rows: list[Exchange] = list(sink.exchanges)
    assert [row.kind for row in rows] == ["call"] * len(sent)
    assert [(row.api_code, row.correlation_id) for row in rows] == [
        (code, id_ if id_ < 1 << 63 else id_ - (1 << 64)) for code, id_ in answers
    ]


def cut_off(frame: bytes, have: int) -> list[tuple[int, bytes | int]]:
    """A request of which a snapshot length kept the first bytes."""
    return [(CLIENT, frame[:have]), (CLIENT, len(frame) - have)]


def test_the_one_request_whose_id_was_not_captured_has_the_one_answer_of_its_kind() -> None:
    lookup = wire.simple(wire.LOOKUP, (1, "persistent://tenant/namespace/topic"), (2, 7))
    answer = (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 1), (4, 7)))
    sink, _ = feed(PROTOCOL, [*cut_off(lookup, 30), answer])
    (row,) = sink.exchanges
    assert (row.kind, row.api, row.correlation_id, row.complete) == ("call", "LOOKUP", 7, False)


def test_of_two_requests_whose_ids_were_not_captured_neither_is_chosen() -> None:
    lookup = wire.simple(wire.LOOKUP, (1, "persistent://tenant/namespace/topic"), (2, 7))
    answer = (SERVER, wire.simple(wire.LOOKUP_RESPONSE, (3, 1), (4, 7)))
    sink, _ = feed(PROTOCOL, [*cut_off(lookup, 30), *cut_off(lookup, 30), answer])
    assert shown(sink) == [("orphan", "LOOKUP", 7), ("unanswered", "LOOKUP", None), ("unanswered", "LOOKUP", None)]


def test_an_answer_whose_id_was_not_captured_answers_the_one_that_is_open() -> None:
    lookup = (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 7)))
    answer = wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://10.0.0.1:6650"), (3, 1), (4, 7))
    sink, _ = feed(PROTOCOL, [lookup, (SERVER, answer[:20]), (SERVER, len(answer) - 20)])
    assert shown(sink) == [("call", "LOOKUP", 7)]
    other = (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 8)))
    sink, _ = feed(PROTOCOL, [lookup, other, (SERVER, answer[:20]), (SERVER, len(answer) - 20)])
    assert [kind for kind, *_ in shown(sink)] == ["orphan", "unanswered", "unanswered"]


def test_an_answer_cut_before_its_error_may_have_been_one() -> None:
    lookup = (CLIENT, wire.simple(wire.LOOKUP, (1, "t"), (2, 7)))
    answer = wire.simple(wire.LOOKUP_RESPONSE, (1, "pulsar://10.0.0.1:6650"), (3, 1), (4, 7))
    sink, _ = feed(PROTOCOL, [lookup, (SERVER, answer[:20]), (SERVER, len(answer) - 20)])
    assert [row.status for row in sink.exchanges] == ["unknown"]
    sink, _ = feed(PROTOCOL, [lookup, (SERVER, answer)])
    assert [row.status for row in sink.exchanges] == ["ok"]
