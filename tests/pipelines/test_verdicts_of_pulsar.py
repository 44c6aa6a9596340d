"""What is wrong with subscriptions, consumers and producers of Pulsar."""

from typing import Any

import pytest

from tests.pipelines.test_verdicts import Row, Rows, batch, call, connection, delivery, dry, event, place, pulsar, said

WHOSE: dict[str, Any] = {"group": "s", "topic": "t", "partition": None, "client_id": "c-1"}


def of_kind(kind: str, **given: Rows) -> Rows:
    """The verdicts of one kind on records."""
    return [row for row in said(**given) if row["kind"] == kind]


# --- consumers that get nothing, or nothing more ---


@pytest.mark.parametrize("standby", [False, True])
def test_a_consumer_that_stands_by_gets_nothing_on_purpose(standby: bool) -> None:
    got = pulsar(batch(10, role="consume", records=20, producer=None, outcome=None, **WHOSE))
    granted = pulsar(place(5), what="permits", value=100, file="a.pcap", packet=1, **WHOSE)
    came = [pulsar(batch(at, topic="t", partition=None, client_id="boss", port=2)) for at in (20, 30)]
    told = [event("standby", pulsar(call(10.5, api="ACTIVE_CONSUMER_CHANGE", **WHOSE)), subject="c-1", topic="t")]
    ends = [pulsar(connection(end=40))]
    events = told if standby else []
    rows = of_kind("delivery_stopped", batches=[got, *came], positions=[granted], connections=ends, events=events)
    assert len(rows) == (not standby)


@pytest.mark.parametrize(("before", "kind"), [(1, "permits_exhausted"), (12, "slow_consumer")])
def test_a_consumer_without_permits_for_no_longer_than_before_is_slow(before: float, kind: str) -> None:
    """It had none for some seconds, and has none at the end, ten seconds later."""
    (message,) = dry()
    earlier = message | {"exchange_id": "m-0", "time": place(10 - before - 1)["time"]}
    granted = dry(granted=9)[1]
    rows = said(exchanges=[earlier, granted, message], connections=[pulsar(connection(end=20))])
    assert [row["kind"] for row in rows] == [kind]


def test_messages_that_another_consumer_of_the_subscription_got_do_not_wait_for_one_without_permits() -> None:
    came = [pulsar(batch(at, topic="t", partition=None, records=3, position=f"7:{at}")) for at in (50, 60)]
    other = pulsar(batch(50.1, role="consume", position="7:50", port=3) | WHOSE | {"client_id": "c-2"})
    ends = [pulsar(connection()), pulsar(connection(3))]
    (row,) = of_kind("permits_exhausted", batches=[*came, other], exchanges=dry(), connections=ends)
    assert "while 3 messages more came to it" in row["sentence"]


# --- messages that come again ---


def acknowledged(at: float, entry: int) -> Row:
    """An acknowledgement of entry 1:ENTRY of topic t."""
    told = pulsar(place(at), what="committed", api="ACK", topic="t", partition=-1, group="s", ledger=1, value=entry)
    return told | {"exchange_id": f"ack-{at}", "file": "a.pcap", "packet": 1}


@pytest.mark.parametrize("twice", [False, True])
def test_messages_that_come_again_while_a_consumer_is_at_work_on_them_are_acknowledged_twice(twice: bool) -> None:
    asked = pulsar(call(10, api="REDELIVER_UNACKNOWLEDGED_MESSAGES", kind="oneway", group="s", topics=["t"]))
    stated = [acknowledged(20, 0), *([acknowledged(15, 0)] if twice else [])]
    came = [delivery(1, "1:0"), delivery(2, "1:1"), delivery(11, "1:0")]
    (row,) = of_kind("redelivered", batches=came, exchanges=[asked], positions=stated)
    assert ("; 2 messages were acknowledged more than once" in row["sentence"]) == twice
    assert row["advice"].startswith("Set an ackTimeout longer") == twice


def test_of_a_subscription_whose_active_consumer_changes_it_is_said_how_often() -> None:
    changes = [pulsar(call(n + 0.5, api="ACTIVE_CONSUMER_CHANGE", group="s", topics=["t"])) for n in range(4)]
    active = [event("active", one, topic="t", partition=-1) for one in changes]
    came = [delivery(n + 0.6, "1:0") for n in range(4)]
    (row,) = of_kind("redelivered", batches=came, exchanges=changes, events=active)
    assert row["sentence"].endswith("another consumer became the active one, 3 times.")
    assert row["advice"].startswith("See why the active consumer")
