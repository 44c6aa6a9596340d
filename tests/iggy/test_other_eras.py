"""A client and a server of different eras: what the server answers is its refusal, in its own framing or not."""

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.rows.sink import Sink
from tests.feeding import CLIENT, SERVER, feed, feed_every_way
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, conversation

LOGIN = w.vsr_request(1, w.register(12), id=0)
INVALID_COMMAND = w.answer(status=3)


def another_era(sink: Sink) -> list[tuple[str, str]]:
    """What the client speaks, and what the server does instead of an answer."""
    return [(e.subject or "", e.text or "") for e in sink.events if e.kind == "other_version"]


def test_a_vsr_client_on_an_older_server_is_answered_in_legacy_framing() -> None:
    """Server 0.8.0 takes the 48 zero bytes of the header for six frames, and the rest for the beginning of another."""
    sink = feed_every_way(PROTOCOL, [(CLIENT, LOGIN), (SERVER, INVALID_COMMAND), (SERVER, INVALID_COMMAND * 5)])
    assert [(e.kind, e.api, e.error_name) for e in sink.exchanges] == [
        ("call", "LOGIN_USER", "InvalidCommand"),
        *[("orphan", None, "InvalidCommand")] * 5,
    ]
    ((client, server),) = another_era(sink)
    assert "0.8 and older" in server
    assert client == "iggy-vsr-0.10 (Iggy 0.9 and newer)"
    assert not [f for f in sink.findings if f.kind in ("pairing_lost", "orphan", "malformed_frame")]


def test_an_older_server_that_answers_with_a_text_is_quoted() -> None:
    sink = feed_every_way(PROTOCOL, [(CLIENT, LOGIN), (SERVER, w.refusal(3, "Invalid command"))])
    assert [(e.name, e.message) for e in sink.errors] == [("InvalidCommand", "Invalid command")]
    assert len(another_era(sink)) == 1


def test_two_requests_on_an_older_server_have_an_answer_each() -> None:
    sink = feed_every_way(PROTOCOL, conversation((LOGIN, INVALID_COMMAND), (LOGIN, INVALID_COMMAND)))
    assert [(e.kind, e.error_name) for e in sink.exchanges] == [("call", "InvalidCommand")] * 2


@pytest.mark.parametrize(
    "refusal",
    [w.vsr_reply(1, id=0, status=4), w.vsr_reply(1, id=0, status=3), w.eviction(14), w.eviction(15)],
    ids=["InvalidFormat", "InvalidCommand", "IncompatibleProtocol", "MalformedLogin"],
)
def test_a_login_that_a_server_cannot_read_is_of_another_era(refusal: bytes) -> None:
    sink = feed_every_way(PROTOCOL, conversation((LOGIN, refusal)))
    ((client, server),) = another_era(sink)
    assert client == "iggy-vsr-0.10 (protocol 0.12.0)"
    assert server.startswith("could not read the login: ")


def test_a_login_that_a_legacy_server_does_not_know_is_of_another_era() -> None:
    sink = feed_every_way(PROTOCOL, conversation((w.request(38, w.login(version="0.8.0")), INVALID_COMMAND)))
    assert len(another_era(sink)) == 1


def test_a_login_without_a_user_is_malformed_and_of_no_era() -> None:
    sink = feed_every_way(PROTOCOL, conversation((w.request(38, w.login(user="")), INVALID_COMMAND)))
    assert not another_era(sink)


@pytest.mark.parametrize("refusal", [w.vsr_reply(1, id=0, status=42), w.eviction(9), w.eviction(11)])
def test_a_login_with_wrong_credentials_is_of_the_same_era(refusal: bytes) -> None:
    assert not another_era(feed_every_way(PROTOCOL, conversation((LOGIN, refusal))))


@pytest.mark.parametrize("era", ERAS)
def test_clients_and_servers_of_one_era_are_never_said_to_differ(era: str) -> None:
    assert not another_era(feed(PROTOCOL, ERAS[era])[0])
