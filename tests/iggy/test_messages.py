"""Rows of `messages`: the state that old polls tell, and the key by which a send places its messages."""

import json
import struct

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.options import Options
from dissectors.records import TABLES
from tests.feeding import feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, conversation

KEY = b"customer-7"
BY_KEY = bytes([3, len(KEY)]) + KEY
HEAD = w.STREAM + w.TOPIC + BY_KEY
SENDS_BY_KEY = {
    "iggy-0.4": HEAD + w.send_a(PAYLOADS),
    "iggy-0.5": w.send_b(PAYLOADS, size=56, to=BY_KEY),
    "iggy-0.7": w.send_b(PAYLOADS, size=64, to=BY_KEY),
    "iggy-vsr-0.9": w.send_vsr(PAYLOADS, to=BY_KEY),
}
"""Era -> a send of PAYLOADS that are placed by KEY."""


@pytest.mark.parametrize("era", SENDS_BY_KEY)
def test_the_key_that_places_messages_is_the_key_of_each(era: str) -> None:
    send = SENDS_BY_KEY[era]
    frame = w.vsr_request(160, send, id=9) if "vsr" in era else w.request(101, send)
    script = [*ERAS[era], *conversation((frame, w.vsr_reply(160, bytes(4), id=9) if "vsr" in era else w.OK))]
    sink = feed_every_way(PROTOCOL, script)
    sent = [m for m in sink.messages if m.role == "produce"][-len(PAYLOADS) :]
    assert [(m.key, m.key_bytes, m.value) for m in sent] == [(KEY, len(KEY), payload) for payload in PAYLOADS]
    others = [m for m in sink.messages if m not in sent]
    assert others
    assert {(m.key, m.key_bytes) for m in others} == {(None, None)}


def test_without_payloads_a_key_shows_its_size_only() -> None:
    script = [*ERAS["iggy-0.7"], *conversation((w.request(101, SENDS_BY_KEY["iggy-0.7"]), w.OK))]
    sink, _ = feed(PROTOCOL, script, options=Options(tables=tuple(TABLES), full=True))
    assert [(m.key, m.key_bytes) for m in sink.messages][-1] == (None, len(KEY))
    assert KEY.decode() not in str([tuple(row) for table in TABLES for row in getattr(sink, table)])


@pytest.mark.parametrize(
    ("number", "state"), [(1, "available"), (10, "unavailable"), (20, "poisoned"), (30, "marked_for_deletion")]
)
def test_a_poll_of_2023_tells_the_state_of_each_message(number: int, state: str) -> None:
    polled = w.polled(w.poll_a(PAYLOADS, state=number), len(PAYLOADS))
    script = [*ERAS["iggy-2023"], *conversation((w.request(100, w.poll_2023()), w.answer(polled)))]
    sink = feed_every_way(PROTOCOL, script)
    assert [m.state for m in sink.messages][-len(PAYLOADS) :] == [state] * len(PAYLOADS)
    shown = json.loads(sink.exchanges[-1].response or "")["messages"]
    assert [message["state"] for message in shown] == [state] * len(PAYLOADS)


@pytest.mark.parametrize("era", ["iggy-0.5", "iggy-0.7", "iggy-vsr-0.10"])
def test_later_eras_know_no_state(era: str) -> None:
    sink, _ = feed(PROTOCOL, ERAS[era])
    assert {m.state for m in sink.messages} == {None}
    assert "state" not in json.loads(sink.exchanges[2].response or "")["messages"][0]


def test_a_sent_message_has_no_state() -> None:
    sink, _ = feed(PROTOCOL, ERAS["iggy-2023"])
    assert {m.role: m.state for m in sink.messages} == {"produce": None, "consume": "available"}


def test_a_state_that_does_not_exist_is_a_malformed_poll() -> None:
    polled = struct.pack("<IQI", 1, 99, 1) + w.poll_a([b"x"], state=2)
    script = [*ERAS["iggy-2023"], *conversation((w.request(100, w.poll_2023()), w.answer(polled)))]
    sink, _ = feed(PROTOCOL, script)
    assert [f.kind for f in sink.findings if f.severity == "error"] == ["malformed_frame"]
