"""What is Iggy and what is not, by content on any port."""

import struct
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from dissectors.iggy.era import Era
from dissectors.iggy.loss import resync
from dissectors.session.search import Judgement, SearchBudget
from tests.feeding import CLIENT, SERVER
from tests.iggy import wire as w
from tests.iggy.eras import ERAS
from tests.session import recognising
from tests.session.recognising import CERTAIN

judged = partial(recognising.judged, PROTOCOL)


def sides(era: str) -> tuple[bytes, bytes]:
    script = ERAS[era]
    return b"".join(d for who, d in script if who == CLIENT), b"".join(d for who, d in script if who == SERVER)


@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_certain_from_its_first_frames(era: str) -> None:
    client, server = sides(era)
    assert judged(client, server, False) >= CERTAIN
    assert judged(client, b"", False) >= CERTAIN


@pytest.mark.parametrize("era", ERAS)
def test_every_era_is_certain_from_its_middle(era: str) -> None:
    client, server = sides(era)
    assert judged(client[40:], server[3:], True) >= CERTAIN


@pytest.mark.parametrize("era", ERAS)
def test_what_is_certain_stays_certain_as_bytes_are_added(era: str) -> None:
    client, server = sides(era)
    certain = False
    for size in range(0, len(client), 3):
        confidence = judged(client[:size], server, False)
        assert not certain or confidence >= CERTAIN, size
        certain = certain or confidence >= CERTAIN
    assert certain


@pytest.mark.parametrize("kept", range(8, 128))
def test_the_beginning_of_a_vsr_header_is_likely_from_its_command_on(kept: int) -> None:
    header = sides("iggy-vsr-0.9")[0][:kept]
    assert 0 < judged(header, b"", False) < CERTAIN
    assert (judged(header, b"", False) >= 0.5) == (kept >= 64)
    assert judged(b"\1" + header[1:], b"", False) == 0  # the first frame has no checksum
    if kept >= 52:
        too_small = header[:48] + struct.pack("<I", 255) + header[52:]
        assert judged(too_small, b"", False) == 0


def test_a_ping_alone_may_be_iggy() -> None:
    assert 0 < judged(w.request(1), b"", False) < CERTAIN
    assert judged(w.request(1), w.OK, False) >= CERTAIN


def test_a_first_answer_that_refuses_is_no_reason_for_doubt() -> None:
    for refused in (w.answer(status=40), w.refusal(40, "Unauthenticated")):
        assert judged(w.request(10), refused, False) >= CERTAIN


@settings(max_examples=300)
@given(
    fields=st.tuples(
        st.sampled_from((0, 1, 7, 1 << 20, 1 << 31)),
        st.sampled_from((0, 5, 1 << 47, 1 << 48, w.T0, w.T0 // 10**6)),
        st.sampled_from((0, 1, 2, 300)),
    ),
    messages=st.sampled_from(
        (b"", w.poll_a([b"x"]), w.poll_b([b"x"], size=56, kind="xxh3"), w.batch([b"x"]), bytes(20))
    ),
    more=st.sampled_from((b"", bytes(24), b"\0\4shop")),
)
def test_a_payload_that_its_first_bytes_rule_out_is_read_by_no_layout(
    fields: tuple[int, int, int], messages: bytes, more: bytes
) -> None:
    payload = struct.pack("<IQI", *fields) + more + messages
    everything = Era().allowed
    for code in resync._ANSWERED - resync._plausible(payload, 0, len(payload), len(payload)):
        read = resync.reads("response", code, payload, 0, len(payload), len(payload), everything, SearchBudget())
        assert read is Judgement.NO
