"""Every wire era is recognised from its bytes alone, however they are cut."""

import json
import struct

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.late_names import Names, resolve
from dissectors.rows.sink import Sink, to_batch
from tests.feeding import CLIENT, feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, RESULT, conversation, dialect


def shown(sink: Sink) -> set[str]:
    """Dialects of the exchanges once names are put in."""
    rows = to_batch("exchanges", sink.exchanges, sink.files, full=True)
    return set(resolve(rows, Names(sink.names)).column("dialect").to_pylist())


@pytest.mark.parametrize("era", ERAS)
def test_an_era_is_known_by_its_bytes_however_they_are_cut(era: str) -> None:
    sink = feed_every_way(PROTOCOL, ERAS[era])
    assert shown(sink) == {dialect(era)}
    assert {row.dialect for row in sink.batches} == {row.dialect for row in sink.exchanges}
    assert not [f for f in sink.findings if f.severity != "info"]


@pytest.mark.parametrize("era", ERAS)
def test_every_era_shows_the_same_exchanges(era: str) -> None:
    sink, _ = feed(PROTOCOL, ERAS[era])
    story = [(e.kind, e.api, e.status, e.topics) for e in sink.exchanges]
    assert story == [
        ("call", "LOGIN_USER", "ok", []),
        ("call", "SEND_MESSAGES", "ok", ["shop/orders"]),
        ("call", "POLL_MESSAGES", "ok", ["shop/orders"]),
        ("call", "PING", "ok", []),
    ]
    assert [e.records for e in sink.exchanges] == [None, 3, 3, None]
    assert [e.payload_bytes for e in sink.exchanges] == [None, 19, 19, None]
    assert [(b.role, b.topic, b.records, b.outcome) for b in sink.batches] == [
        ("produce", "shop/orders", 3, "ok"),
        ("consume", "shop/orders", 3, "ok"),
    ]
    assert sink.batches[1].verdict == "ok"
    assert [m.value for m in sink.messages] == PAYLOADS * 2
    assert [m.message_id for m in sink.messages] == [str((7 << 64) + i) for i in range(3)] * 2


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("other", [e for e in ERAS if " " not in e])
def test_an_era_that_the_user_names_is_taken(era: str, other: str) -> None:
    options = Options(tables=tuple(TABLES), dialects={"iggy": other})
    sink, fed = feed(PROTOCOL, ERAS[era], options=options)
    assert {row.dialect for row in sink.exchanges} <= {other}
    assert fed.summary().dialect in (other, None)


def test_one_release_is_shown_with_its_evidence() -> None:
    sink, _ = feed(PROTOCOL, ERAS["iggy-0.7"])
    (finding,) = [f for f in sink.findings if f.kind == "dialect"]
    evidence = json.loads(finding.evidence or "")
    assert evidence["dialect"] == "iggy-0.7"
    assert evidence["confidence"] == 1.0
    assert evidence["releases"] == ["0.7"]
    assert evidence["evidence"]


def test_what_two_releases_read_alike_is_reported_as_uncertain() -> None:
    sink, _ = feed(
        PROTOCOL, conversation((w.request(38, w.login(version="1.0")), w.answer(b"\0\0\0\0")), (w.request(1), w.OK))
    )
    (finding,) = [f for f in sink.findings if f.kind == "dialect_uncertain"]
    evidence = json.loads(finding.evidence or "")
    assert evidence["releases"] == ["0.6", "0.7"]
    assert 0 < evidence["confidence"] < 1


def test_what_a_release_does_later_revises_what_was_believed() -> None:
    early = conversation(*[(w.request(1), w.OK)] * 3)
    sink, _ = feed(PROTOCOL, early + ERAS["iggy-0.5"])
    assert {row.dialect for row in sink.exchanges} == {"iggy-0.5"}


def test_repeated_evidence_against_an_era_overturns_it() -> None:
    mistaken = [(CLIENT, w.request(100, w.poll_2023()))]
    right = ERAS["iggy-0.7"][2:] * 3
    _, fed = feed(PROTOCOL, [*mistaken, *right])
    assert fed.summary().dialect == "iggy-0.7"


@pytest.mark.parametrize("era", ["iggy-vsr-0.9", "iggy-vsr-0.10"])
def test_nothing_overturns_the_framing(era: str) -> None:
    """Bodies of releases with the other framing, however many: nobody there logs in by their command."""
    stray = [(w.vsr_request(2, w.login("ann"), id=n, code=38), w.vsr_reply(2, b"", id=n)) for n in range(9, 14)]
    sink, fed = feed(PROTOCOL, ERAS[era] + conversation(*stray))
    assert fed.summary().dialect == era
    assert {row.client_id for row in sink.exchanges[-5:]} == {sink.exchanges[-6].client_id}


def test_a_connection_that_shows_too_little_takes_over_what_another_to_its_server_speaks() -> None:
    vague, _ = feed(PROTOCOL, conversation((w.request(1), w.OK)))
    settled, _ = feed(PROTOCOL, ERAS["iggy-0.5"])
    assert shown(vague) == {"iggy-0.7"}
    vague.names += settled.names
    assert shown(vague) == {"iggy-0.5"}


def test_what_is_certain_elsewhere_goes_before_what_is_likely_elsewhere() -> None:
    vague, _ = feed(PROTOCOL, conversation((w.request(1), w.OK)))
    likely, _ = feed(
        PROTOCOL, ERAS["iggy-0.4"][:2] + conversation((w.request(38, w.login(version="0.6.3")), w.answer(b"\1\0\0\0")))
    )
    certain, _ = feed(PROTOCOL, ERAS["iggy-0.5"])
    vague.names += likely.names
    assert shown(vague) == {"iggy-0.4"}
    vague.names += certain.names
    assert shown(vague) == {"iggy-0.5"}


def test_a_creation_answered_with_nothing_is_older_than_one_answered_with_what_was_made() -> None:
    login = ERAS["iggy-0.4"][:2]
    create = w.request(202, b"\1\0\0\0" + w.str8("shop"))
    made = struct.pack("<IQIQQ", 1, w.T0, 0, 0, 0) + w.str8("shop")
    for answer, spoken in ((w.OK, "iggy-0.3"), (w.answer(made), "iggy-0.4")):
        sink, _ = feed(PROTOCOL, [*login, *conversation((create, answer))])
        assert shown(sink) == {spoken}


def test_the_version_that_a_server_gives_of_itself_settles_the_era() -> None:
    usage = struct.pack("<Iff", 1, 0, 0) + struct.pack("<8Q4IQ2I", *range(8), *range(4), 9, 1, 1)
    stats = usage + w.str32("host") + w.str32("linux") + w.str32("12") + w.str32("6.1")
    script = conversation((w.request(38, w.login(version="1.0")), w.answer(bytes(4))), (w.request(1), w.OK))
    for version, spoken in (("0.6.0", "iggy-0.6"), ("0.8.0", "iggy-0.7")):
        answer = w.answer(stats + w.str32(version) + bytes(8))
        sink, fed = feed(PROTOCOL, [*script, *conversation((w.request(10), answer))])
        assert shown(sink) == {spoken}
        assert fed.summary().server_version == version


def test_what_was_not_found_says_nothing_of_the_era() -> None:
    vague = conversation((w.request(38, w.login(version="1.0")), w.answer(bytes(4))), (w.request(200, w.STREAM), w.OK))
    sink, _ = feed(PROTOCOL, vague)
    (finding,) = [f for f in sink.findings if f.kind == "dialect_uncertain"]
    assert json.loads(finding.evidence or "")["releases"] == ["0.6", "0.7"]


def test_whether_an_error_comes_with_a_text_shows_the_release() -> None:
    login = conversation((w.request(38, w.login(version="1.0")), w.answer(struct.pack("<I", 1))))
    refused = w.request(203, w.number(9))
    made = (
        w.request(202, b"\1\0\0\0" + w.str8("shop")),
        w.answer(struct.pack("<IQIQQ", 1, w.T0, 0, 0, 0) + w.str8("shop")),
    )
    for reply, releases in ((w.refusal(1009, "was not found"), ["0.4"]), (w.answer(status=1009), ["0.4.90", "0.5"])):
        sink, _ = feed(PROTOCOL, [*login, *conversation(made, (refused, reply))])
        (finding,) = [f for f in sink.findings if str(f.kind).startswith("dialect")]
        assert json.loads(finding.evidence or "")["releases"] == releases


def test_a_login_is_read_as_its_protocol_version_says_not_as_bytes_fit_by_chance() -> None:
    """The first byte of the bind secret is the length of a token that would end where the password does."""
    script = conversation(
        (w.vsr_request(1, w.register(12, "p" * 29), id=0), w.vsr_reply(1, RESULT + w.registered(12), id=0))
    )
    sink = feed_every_way(PROTOCOL, script)
    (row,) = sink.exchanges
    assert (row.api, row.client_id, row.dialect) == ("LOGIN_USER", "iggy", "iggy-vsr-0.10")
