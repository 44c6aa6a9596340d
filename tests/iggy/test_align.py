"""A hole in a pipelined connection: answers are laid over the requests in flight in the one way that fits."""

from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from dissectors.iggy.match import HELD, PAIRED, QUIET_NS, UNSURE, Pairing
from dissectors.iggy.pairing_states import Order
from dissectors.iggy.pending import Answer, IggyRequest
from dissectors.limits import PAIRING_CREDIT, PAIRING_STEPS_PER_FRAME
from dissectors.rows.sink import Sink
from dissectors.session.frame import Frame
from tests.feeding import CLIENT, SERVER, feed
from tests.iggy import wire as w
from tests.iggy.eras import PAYLOADS, Script, conversation

LOGIN = conversation((w.request(38, w.login(version="0.8.0")), w.answer(b"\0\0\0\0")))
SEND, PING = w.request(101, w.send_b(PAYLOADS, size=64)), w.request(1)
MESSAGES = w.poll_b(PAYLOADS, size=64, kind="xxh3")
PIPELINED: Script = [(CLIENT, PING * 2), (SERVER, w.OK * 2)]


def poll(part: int = 1) -> bytes:
    return w.request(100, w.poll_06(part))


def polled(part: int = 1) -> bytes:
    return w.answer(w.polled(MESSAGES, 3, part=part))


def story(sink: Sink) -> list[tuple[str | None, str | None, int | None]]:
    """What became of the requests after the login and the proof of pipelining."""
    rows = sorted((e for e in sink.exchanges if e.api != "LOGIN_USER"), key=lambda e: e.request_packet_ref or 0)
    return [(e.kind, e.api, e.records) for e in rows[2:]]


def test_an_answer_with_messages_shows_which_answers_were_lost() -> None:
    requests = [(CLIENT, poll()), (CLIENT, SEND), (CLIENT, poll()), (CLIENT, SEND), (CLIENT, PING)]
    script = [*LOGIN, *PIPELINED, *requests, (SERVER, len(polled())), (SERVER, w.OK + polled() + w.OK + w.OK)]
    sink, _ = feed(PROTOCOL, script)
    assert story(sink) == [
        ("unanswered", "POLL_MESSAGES", None),
        ("call", "SEND_MESSAGES", 3),
        ("call", "POLL_MESSAGES", 3),
        ("call", "SEND_MESSAGES", 3),
        ("call", "PING", None),
    ]
    assert [b.verdict for b in sink.batches if b.role == "consume"] == ["ok"]


def test_the_partitions_of_polled_messages_distinguish_the_polls() -> None:
    requests = [(CLIENT, poll(part)) for part in (1, 2, 3, 2)]
    script = [*LOGIN, *PIPELINED, *requests, (SERVER, len(polled())), (SERVER, polled(2) + polled(3))]
    sink, _ = feed(PROTOCOL, script)
    assert [kind for kind, *_ in story(sink)] == ["unanswered", "call", "call", "unanswered"]
    assert [b.partition for b in sink.batches if b.role == "consume"] == [2, 3]


def test_answers_that_fit_in_several_ways_are_paired_with_nothing() -> None:
    requests = [(CLIENT, poll())] * 4
    sink, _ = feed(PROTOCOL, [*LOGIN, *PIPELINED, *requests, (SERVER, 2 * len(polled())), (SERVER, polled())])
    assert [kind for kind, *_ in story(sink)] == ["unanswered"] * 4
    assert [f.kind for f in sink.findings].count("orphan") == 1


def test_a_lost_request_in_a_pipeline_costs_no_answer_before_it() -> None:
    requests = [(CLIENT, SEND), (CLIENT, PING), (CLIENT, len(SEND)), (CLIENT, poll())]
    sink, _ = feed(PROTOCOL, [*LOGIN, *PIPELINED, *requests, (SERVER, w.OK * 3 + polled())])
    assert story(sink) == [
        ("call", "SEND_MESSAGES", 3),
        ("call", "PING", None),
        ("unanswered", "POLL_MESSAGES", None),  # the hole may have held a poll
    ]


KINDS = {"send": (SEND, w.OK), "ping": (PING, w.OK), **{f"poll {p}": (poll(p), polled(p)) for p in (1, 2)}}


@settings(max_examples=120)
@given(st.data())
def test_whatever_is_lost_of_a_pipeline_no_answer_goes_to_another_request(data: st.DataObject) -> None:
    kinds = data.draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=2, max_size=12))
    first = data.draw(st.integers(0, len(kinds) - 1))
    last = data.draw(st.integers(first, len(kinds) - 1))
    lost_requests = data.draw(st.sets(st.integers(0, len(kinds) - 1), max_size=2))
    ask: Script = [(CLIENT, len(KINDS[k][0]) if i in lost_requests else KINDS[k][0]) for i, k in enumerate(kinds)]
    before, after = kinds[:first], kinds[last:]
    lost = sum(len(KINDS[k][1]) for k in kinds[first:last])
    reply: Script = [(SERVER, KINDS[k][1]) for k in before]
    reply += [(SERVER, lost)] if lost else []
    reply += [(SERVER, KINDS[k][1]) for k in after]
    sink, _ = feed(PROTOCOL, [*LOGIN, *PIPELINED, *ask, *reply])
    head = len(LOGIN) + len(PIPELINED)
    answers = [*range(first), *range(last, len(kinds))]  # the requests whose answers were captured
    packet_refs = [packet_ref for packet_ref, (_, what) in enumerate(reply) if isinstance(what, bytes)]
    truth = {
        head + i + 1: head + len(ask) + packet_ref + 1
        for i, packet_ref in zip(answers, packet_refs, strict=True)
        if i not in lost_requests
    }
    for row in sink.exchanges:
        if row.kind == "call" and (row.request_packet_ref or 0) > head:
            assert truth[row.request_packet_ref or 0] == row.response_packet_ref


# --- silence ---------------------------------------------------------------------------------------------------------


def request(order: int, time: int) -> IggyRequest:
    return IggyRequest(Frame(CLIENT, b"", 0, 0, 8, 8, 0, order, time, time, 1).facts(), "PING", 1)


def alike() -> Pairing:
    """Four requests in flight that any answer fits, of which one or two had theirs in a hole; one more came."""

    def fits(call: IggyRequest, answer: Answer) -> bool:
        return True

    pairing = Pairing(fits, fits, 100, midstream=False)
    pairing.order = Order.PIPELINED
    for order in range(4):
        pairing.send(request(order, order))
    assert pairing.answer(Answer(10, 10, 0, 8), 24)[0] == HELD
    return pairing


def test_silence_means_that_everything_has_been_answered() -> None:
    pairing = alike()
    waiting = list(pairing.queue)
    later = request(20, 20 + QUIET_NS)
    pairing.send(later)
    judged, call, given_up = pairing.answer(Answer(21, 21 + QUIET_NS, 0, 0), 0)
    assert (judged, call) == (PAIRED, later)
    assert [its for _, its in pairing.resolved] == [waiting[3]]
    assert given_up == waiting[:3]


def test_silence_proves_nothing_where_bytes_are_missing_after_it() -> None:
    pairing = alike()
    later = request(20, 20 + QUIET_NS)
    pairing.send(later)
    judged, call, _ = pairing.answer(Answer(21, 21 + QUIET_NS, 0, 0), 8)
    assert judged in (HELD, UNSURE)
    assert call is None
    pairing.close()
    assert [its for _, its in pairing.resolved] == [None] * len(pairing.resolved)


def test_a_hole_among_very_many_requests_is_not_searched() -> None:
    pairing = Pairing(lambda call, answer: True, lambda call, answer: True, 10_000, midstream=False)
    pairing.order = Order.PIPELINED
    for order in range(5_000):
        pairing.send(request(order, order))
    assert pairing.answer(Answer(10_000, 10_000, 0, 0), 1 << 30)[0] == UNSURE
    assert not pairing.queue


def test_what_pairing_compares_is_bounded_by_the_frames_it_saw() -> None:
    """Thousands of requests wait, and answers come that are no request's: not all are compared with all."""
    compared = 0

    def fits(call: IggyRequest, answer: Answer) -> bool:
        nonlocal compared
        compared += 1
        return False

    pairing = Pairing(fits, fits, 100_000, midstream=False)
    for order in range(5000):
        pairing.send(request(order, order))
    judged = {pairing.answer(Answer(10_000 + i, 10_000 + i, 0, 8), 0)[0] for i in range(5000)}
    assert pairing.search_abandoned
    assert UNSURE in judged
    assert compared <= PAIRING_CREDIT + 10_000 * (PAIRING_STEPS_PER_FRAME + 1)


def test_a_reply_whose_request_id_is_no_number_of_a_row_is_judged_at_once() -> None:
    opened = [(CLIENT, w.vsr_request(1, w.register())), (SERVER, w.vsr_reply(1, w.registered()))]
    asked = [w.vsr_request(2, id=number, code=10) for number in (2, 3, 4)]
    lost, reply = len(w.vsr_reply(2)), w.vsr_reply(2, bytes(25), id=(1 << 64) - 1)
    sink, _ = feed(PROTOCOL, [*opened, (CLIENT, b"".join(asked)), (SERVER, lost), (SERVER, reply)])
    assert [e.kind for e in sink.exchanges if e.api == "GET_STATS" and e.request_bytes] == ["unanswered"] * 3
