"""What is wrong with subscriptions, consumers and producers of Pulsar."""

from typing import Any

import pytest

from tests.pipelines.test_verdicts import (
    AT_ONCE,
    MS,
    SECOND,
    UNANSWERED,
    Row,
    Rows,
    batch,
    call,
    connection,
    delivery,
    dry,
    error,
    event,
    place,
    pulsar,
    said,
)

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


@pytest.mark.parametrize(("at", "entry", "type_", "back"), [
    (3, 0, "Shared", True), (3, 1, "Exclusive", True), (3, 1, "Shared", False), (18, 0, "Shared", False),
])  # fmt: skip
def test_messages_that_come_again_long_after_they_were_acknowledged_show_that_it_was_set_back(
    at: float, entry: int, type_: str, back: bool
) -> None:
    opened = pulsar(call(15, api="SUBSCRIBE", group="s", topics=["t"]))
    joined = [event(kind, opened, topic="t", text=type_) for kind in ("joined", "subscribed")]
    came = [*(delivery(n, f"1:{n}") for n in range(3)), delivery(20, "1:0")]
    given = {"batches": came, "exchanges": [opened], "events": joined, "positions": [acknowledged(at, entry)]}
    (row,) = of_kind("redelivered", **given)
    assert row["severity"] == "note"
    assert ("they had been acknowledged, and then" in row["sentence"]) == back
    assert ("reset-cursor" in row["advice"]) == back


@pytest.mark.parametrize(("each", "why"), [(True, "a consumer asked for them again"), (False, "went back")])
def test_what_an_exclusive_consumer_that_acknowledges_each_message_rejects_was_not_acknowledged(
    each: bool, why: str
) -> None:
    asked = pulsar(call(19, api="REDELIVER_UNACKNOWLEDGED_MESSAGES", kind="oneway", group="s", topics=["t"]))
    joined = event("joined", pulsar(call(0, api="SUBSCRIBE", group="s")), topic="t", text="Exclusive")
    acks = [acknowledged(n + 0.5, n) for n in (range(1, 10) if each else (4, 9))]
    came = [*(delivery(n, f"1:{n}") for n in range(10)), delivery(20, "1:0")]
    (row,) = of_kind("redelivered", batches=came, exchanges=[asked], events=[joined], positions=acks)
    assert row["sentence"].endswith(f"{why}.")


@pytest.mark.parametrize("durable", [True, False])
def test_a_reader_that_begins_anew_gets_nothing_again(durable: bool) -> None:
    opened = pulsar(call(15, api="SUBSCRIBE", group="s", topics=["t"]))
    kept = [event("subscribed", opened, topic="t")] if durable else []
    joined = [event("joined", opened, topic="t", text="Exclusive"), *kept]
    came = [delivery(1, "1:0"), delivery(20, "1:0")]
    given = {"batches": came, "exchanges": [opened], "events": joined, "positions": [acknowledged(3, 0)]}
    assert len(of_kind("redelivered", **given)) == durable


# --- subscriptions that are behind ---


@pytest.mark.parametrize("again", [None, 20, 40])
def test_a_subscription_that_was_deleted_is_not_behind_with_what_came_until_it_was_made_again(
    again: int | None,
) -> None:
    """It is deleted after ten messages; of those since it is there again, it gets none at first."""
    given = subscription(got=range(10))
    deleted = event("deleted", pulsar(call(11, api="UNSUBSCRIBE", group="s")), thing="subscription", topic="t")
    anew = [event("joined", pulsar(call(again, api="SUBSCRIBE", group="s")), topic="t", subject="c-1")] if again else []
    rows = of_kind("consumer_behind", **given | {"events": [*given["events"], deleted, *anew]})
    assert rows == []
    assert of_kind("consumer_behind", **given) != []


def subscription(type_: str = "Exclusive", got: Any = range(30), acked: Any = None, sent: int = 60) -> dict[str, Rows]:
    """A message a second for a minute; of these got: at once, by consumers c-1 and, where sharing, c-2 in turn."""
    sharing = type_ != "Exclusive"
    names = [f"c-{1 + sharing * (n % 2)}" for n in range(sent)]
    whose = {"topic": "t", "partition": 0}
    made = [{"first_timestamp": place(n)["time"], "max_timestamp": place(n)["time"], "position": f"1:{n}"}
        for n in range(sent)]  # fmt: skip
    written = [pulsar(batch(n, **whose, port=9, client_id="boss")) | made[n] for n in range(sent)]
    read = [
        pulsar(batch(n + 0.01, role="consume", producer=None, exchange_id=f"m-{n}", outcome=None, **whose))
        | made[n] | {"group": "s", "client_id": names[n]} for n in got
    ]  # fmt: skip
    pushed = [
        pulsar(call(n + 0.01, api="MESSAGE", kind="push", topics=["t"], group="s", exchange_id=f"m-{n}"))
        | {"client_id": names[n]} for n in got
    ]  # fmt: skip
    acks = [
        acknowledged(n + 0.02, n) | whose | {"client_id": names[n]} for n in (got if acked is None else acked)
    ]  # fmt: skip
    told = [pulsar(call(one["time"].second + 0.02, api="ACK", kind="oneway", group="s")) for one in acks]
    told = [row | {"exchange_id": ack["exchange_id"]} for row, ack in zip(told, acks, strict=True)]
    granted = [pulsar(place(0), what="permits", value=1000, **whose) | {"group": "s", "client_id": name}
        for name in sorted(set(names))]  # fmt: skip
    joined = [event("joined", pulsar(call(0, api="SUBSCRIBE", group="s")), subject=name, text=type_, **whose)
        for name in sorted(set(names))]  # fmt: skip
    durable = event("subscribed", pulsar(call(0, api="SUBSCRIBE", group="s")), text=f"type={type_}", **whose)
    return {
        "batches": written + read, "positions": acks + granted, "exchanges": pushed + told,
        "events": [*joined, durable], "connections": [pulsar(connection(end=sent)), pulsar(connection(9, end=sent))],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("type_", "got", "kind"),
    [
        ("Exclusive", range(30), "delivery_stopped"),
        ("Shared", range(30), "delivery_stopped"),
        ("Key_Shared", range(30), None),  # what comes may be another's
        ("Shared", range(0, 30, 2), None),  # others get some, whom the capture does not show
        ("Exclusive", range(15), None),  # too few to tell
        ("Exclusive", range(60), None),
    ],
)
def test_a_broker_that_holds_messages_back_is_told_from_consumers_that_do(type_: str, got: Any, kind: str) -> None:
    rows = of_kind("delivery_stopped", **subscription(type_, got))
    assert [row["kind"] for row in rows] == ([kind] if kind else [])
    for row in rows:
        assert "what was delivered is acknowledged, 30 messages wait" in row["sentence"]
        assert row["advice"].startswith("The broker holds messages back")
        assert row["detail"] is None


def test_nor_is_a_broker_accused_of_messages_of_open_transactions() -> None:
    given = subscription()
    joins = event("transaction_joined", pulsar(call(1, api="SEND")), subject="(1,1)", topic="t")
    assert of_kind("delivery_stopped", **given | {"events": [*given["events"], joins]}) == []


@pytest.mark.parametrize("granted", [1000, 20])
def test_a_broker_that_sends_slowly_though_its_consumers_wait_is_told(granted: int) -> None:
    given = subscription(got=range(20))
    for n in range(20):  # it gets one message in three seconds
        for row in (given["batches"][60 + n], given["exchanges"][n], given["positions"][n], given["exchanges"][20 + n]):
            row["time"] = place(3 * n + 0.01)["time"]
    given["positions"][-1]["value"] = granted
    (row,) = of_kind("consumer_behind", **given)
    assert ("granted permits for more." in row["sentence"]) == (granted > 20)
    assert row["advice"].startswith("The broker holds messages back") == (granted > 20)


def test_a_consumer_that_holds_all_that_waits_leaves_nothing_to_the_others() -> None:
    given = subscription("Shared", range(60), range(1, 60, 2))
    (row,) = of_kind("consumer_behind", **given)
    assert row["sentence"].startswith("Group s has unacknowledged messages in partition 0 of topic t: 30 messages wait")
    assert row["advice"].startswith("See why that consumer is slower than the others")
    assert row["last_time"] is None


def test_nor_is_one_that_left_among_the_others() -> None:
    given = subscription("Shared", range(60), range(1, 60, 2))
    left = event("left", pulsar(call(55, api="CLOSE_CONSUMER", group="s")), topic="t", subject="c-2")
    (row,) = of_kind("consumer_behind", **given | {"events": [*given["events"], left]})
    assert not row["advice"].startswith("See why that consumer is slower")


def test_of_several_consumers_it_is_said_that_each_holds_messages() -> None:
    given = subscription("Shared", range(30), [])
    (row,) = of_kind("delivery_stopped", **given)
    assert "c-1 on 10.0.0.2 and c-2" in row["sentence"] or "c-1 and c-2 on" in row["sentence"]
    assert "get nothing more" in row["sentence"]
    assert ": each holds up to 15 messages" in row["sentence"]


@pytest.mark.parametrize(("stuck", "severity"), [(True, "warning"), (False, "note")])
def test_a_subscription_does_not_catch_up_while_one_consumer_holds_the_same_messages(
    stuck: bool, severity: str
) -> None:
    """Twelve messages are held for most of a minute, by one fewer than at first, or half of them are done with."""
    held = range(0, 24, 2)
    given = subscription("Shared", range(60), [n for n in range(60) if n not in held])
    done = [acknowledged(58 + n / 100, entry) | {"partition": 0} for n, entry in enumerate(held[-1 if stuck else -6 :])]
    asked = [
        pulsar(call(58, api="ACK", kind="oneway", group="s")) | {"exchange_id": row["exchange_id"]} for row in done
    ]
    given |= {"positions": given["positions"] + done, "exchanges": given["exchanges"] + asked}
    (row,) = of_kind("consumer_behind", **given)
    assert row["severity"] == severity
    assert ("it catches up" in row["sentence"]) != stuck


# --- what another one has, and what is full ---


def refused(api: str, name: str, client: str, healed: float | None = None, **more: Any) -> dict[str, Rows]:
    """Five requests of a client about topic t that failed with an error, from the tenth second on, every other one."""
    of = {"topics": ["t"], "client_id": client, "port": 2, "client_ip": "10.0.0.9", **more}
    failed = [pulsar(call(10 + 2 * n, api=api, status="error", error_name=name, **of)) for n in range(5)]
    errors = [error(one, name, topic=of["topics"][0], retriable=False) for one in failed]
    done = [] if healed is None else [pulsar(call(healed, api=api, **of))]
    return {
        "exchanges": failed + done, "errors": errors,
        "connections": [pulsar(connection(end=60)), pulsar(connection(2, end=60))],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("api", "name", "holder", "until", "held"),
    [
        ("SUBSCRIBE", "ConsumerBusy", "c-1", 60, "subscription s"),
        ("SUBSCRIBE", "ConsumerBusy", "c-1", 5, None),
        ("PRODUCER", "ProducerBusy", "c-2", 60, "that name"),
        ("PRODUCER", "ProducerBusy", "c-1", 60, None),  # of another name
        ("PRODUCER", "NotAllowedError", "c-2", 60, None),
    ],
)
def test_who_holds_what_another_is_refused_is_named(
    api: str, name: str, holder: str, until: float, held: str | None
) -> None:
    group = "s" if api == "SUBSCRIBE" else None
    given = refused(api, name, "c-2", group=group)
    let_in = pulsar(call(1, api=api, topics=["t"], group=group, client_id=holder))
    closes = [pulsar(call(until, api=f"CLOSE_{'CONSUMER' if group else 'PRODUCER'}", topics=["t"], client_id=holder))]
    (row,) = of_kind("errors", **given | {"exchanges": [let_in, *given["exchanges"], *closes]})
    text = f", as {holder} on 10.0.0.2 has held {held} since 12:00:01; no later attempt succeeded."
    assert row["sentence"].endswith(text if held else f"with {name}; no later attempt succeeded.")


def test_only_those_are_named_that_hold_the_same_subscription_of_the_same_topic() -> None:
    """c-1 holds s of topic t, and c-2 s2 of topic u; s2 of t and s of u, which others have too, nobody is refused."""
    holders = [("c-1", "t", "s"), ("c-2", "u", "s2"), ("c-3", "t", "s2"), ("c-4", "u", "s")]
    let_in = [pulsar(call(1, api="SUBSCRIBE", topics=[topic], group=group, client_id=name))
        for name, topic, group in holders]  # fmt: skip
    given = [refused("SUBSCRIBE", "ConsumerBusy", "c-9", group=group, topics=[topic])
        for topic, group in (("t", "s"), ("u", "s2"))]  # fmt: skip
    for row in given[1]["exchanges"] + given[1]["errors"]:
        row["exchange_id"] = f"other {row['exchange_id']}"
    both = {name: given[0][name] + given[1][name] for name in given[0]}
    (row,) = of_kind("errors", **both | {"exchanges": [*let_in, *both["exchanges"]]})
    assert "as c-1 and c-2 on 10.0.0.2 have held subscriptions s and s2 since" in row["sentence"]


@pytest.mark.parametrize(("api", "name"), [("SUBSCRIBE", "ConsumerBusy"), ("PRODUCER", "ProducerBusy")])
def test_one_client_too_many_is_not_refused_for_what_another_has(api: str, name: str) -> None:
    given = refused(api, name, "c-2", group="s")
    for row in given["errors"]:
        row["message"] = "Topic 't' reached max clients limit"
    let_in = pulsar(call(1, api=api, topics=["t"], group="s", client_id="c-2"))
    (row,) = of_kind("errors", **given | {"exchanges": [let_in, *given["exchanges"]]})
    assert row["sentence"].endswith(f"with {name}; no later attempt succeeded.")
    assert row["advice"].startswith("Close those that nobody needs, or raise the limit")


@pytest.mark.parametrize(("healed", "severity"), [(40, "warning"), (18.5, "note")])
def test_a_producer_that_could_not_be_opened_for_seconds_was_out(healed: float, severity: str) -> None:
    given = refused("PRODUCER", "ProducerBusy", "c-2", healed)
    if severity == "note":
        given = {name: rows[4:] if name in ("exchanges", "errors") else rows for name, rows in given.items()}
    (row,) = of_kind("errors", **given)
    assert row["severity"] == severity


def test_producers_that_a_backlog_quota_stops_are_told_with_whose_backlog_it_is() -> None:
    given = subscription("Shared", range(60), range(1, 60, 2))
    stopped = refused("PRODUCER", "ProducerBlockedQuotaExceededError", "boss", 25)
    close = pulsar(call(9, api="CLOSE_PRODUCER", kind="push", topics=["t"], port=2))
    closed = event("closed_by_broker", close, topic="t")
    both = {name: given.get(name, []) + stopped.get(name, []) for name in {*given, *stopped}}
    rows = said(**both | {"exchanges": [*both["exchanges"], close], "events": [*both["events"], closed]})
    assert "topic_moved" not in [row["kind"] for row in rows]
    (row,) = [row for row in rows if row["kind"] == "errors"]
    assert row["severity"] == "warning"
    assert row["advice"] == "See why subscription s acknowledged too little: a backlog is over its quota."


@pytest.mark.parametrize("answered", [False, True])
def test_a_client_that_does_not_renew_its_login_is_told(answered: bool) -> None:
    kind = {} if answered else UNANSWERED
    asked = pulsar(call(30, api="AUTH_CHALLENGE", initiator="server", topics=None, **kind))
    rows = said(exchanges=[asked], connections=[pulsar(connection(end=60, closed="fin", closed_by="server"))])
    assert [row["kind"] for row in rows] == ["auth_refused"] * (not answered)
    text = "asked for it (AUTH_CHALLENGE), once; its connection was closed 30.0 s later."
    assert all(row["sentence"].endswith(text) for row in rows)


def test_a_client_that_leaves_need_not_renew_its_login() -> None:
    asked = pulsar(call(30, api="AUTH_CHALLENGE", initiator="server", topics=None, **UNANSWERED))
    assert said(exchanges=[asked], connections=[pulsar(connection(end=31, closed="fin", closed_by="client"))]) == []


def test_a_broker_is_not_slow_where_a_client_answers_it_late() -> None:
    slow = {"total_ns": 15 * SECOND, "wait_ns": 15 * SECOND, **AT_ONCE}
    asked = pulsar(call(30, api="AUTH_CHALLENGE", initiator="server", topics=None, **slow))
    assert of_kind("slow_requests", exchanges=[asked], connections=[pulsar(connection())]) == []


# --- transactions ---


@pytest.mark.parametrize("late", [True, False])
def test_transactions_that_pulsar_ended_after_their_time_are_told_together(late: bool) -> None:
    begun = [pulsar(call(n, api="NEW_TXN")) for n in range(2)]
    ended = [pulsar(call(30 + n, api="END_TXN", status="error", error_name="InvalidTxnStatus")) for n in range(2)]
    healthy = pulsar(call(40, api="END_TXN"))
    allowed = (10 if late else 60) * 1000
    events = [event("transaction_began", one, subject=f"(0,{n})", number=allowed) for n, one in enumerate(begun)]
    events += [
        event("transaction_ended", one, subject=f"(0,{n})", text="commit", packet=one["request_packet"])
        for n, one in enumerate(ended)
    ]
    rows = said(
        exchanges=[*begun, *ended, healthy], events=events, connections=[pulsar(connection(end=60))],
        errors=[error(one, "InvalidTxnStatus", topic=None) for one in ended],
    )  # fmt: skip
    (row,) = rows
    assert (row["kind"], row["severity"], row["count"]) == ("transactions_aborted" if late else "errors", "warning", 2)
    assert ("did not end 2 transactions in time" in row["sentence"]) == late
    assert ("in transactions that were over" in row["sentence"]) != late


def test_an_acknowledgement_that_the_broker_turned_down_leaves_its_message_unacknowledged() -> None:
    given = subscription("Shared", range(60))
    conflicts = [row for row in given["exchanges"] if row["api"] == "ACK"][1::2]
    for row in conflicts:
        row |= {"kind": "call", "status": "error", "error_name": "TransactionConflict"}
    rows = said(**given, errors=[error(row, "TransactionConflict") for row in conflicts])
    found = {row["kind"]: row["sentence"] for row in rows}
    assert "30 messages wait" in found["consumer_behind"]
    assert "in transactions while another one holds them: TransactionConflict, 30 times." in found["errors"]


# --- brokers ---


@pytest.mark.parametrize("named", [True, False])  # the capture may begin after its producer was opened
@pytest.mark.parametrize(("later", "told"), [(None, True), (9, True), (25, False)])
def test_a_cluster_that_takes_no_more_of_what_another_sends_is_told(
    later: float | None, told: bool, named: bool
) -> None:
    """Receipts may lack the number that was sent: what has none is only told where none of any kind came behind it."""
    replicator = {"api": "SEND", "client_id": "pulsar.repl.a-->b" if named else None}
    sent = [pulsar(call(10 + n, **replicator, **UNANSWERED, exchange_id=f"s-{n}")) for n in range(3)]
    copied = [pulsar(batch(10 + n, role="replicate", outcome=None, exchange_id=f"s-{n}")) for n in range(3)]
    receipts = [] if later is None else [pulsar(call(later, **replicator))]
    ends = [pulsar(connection(end=60, closed="open"))]
    rows = said(exchanges=[*sent, *receipts], connections=ends, batches=[] if named else copied)
    assert [row["kind"] for row in rows] == ["unanswered"] * told


def test_a_broker_of_another_cluster_is_not_compared_with_those_of_this_one() -> None:
    def sends(client: str, broker: int, ms: int) -> Rows:
        long = {"total_ns": ms * MS, "wait_ns": ms * MS, "client_id": client, "broker": broker, **AT_ONCE}
        return [pulsar(call(n / 10, api="SEND", exchange_id=f"{broker}-{n}", **long)) for n in range(120)]

    near = sends("p-1", 1, 2)
    ends = [pulsar(connection(broker=broker)) for broker in (1, 2)]
    assert of_kind("uneven_broker", exchanges=near + sends("pulsar.repl.a-->b", 2, 40), connections=ends) == []
    (row,) = of_kind("uneven_broker", exchanges=near + sends("p-2", 2, 40), connections=ends)
    assert "Broker 10.0.0.1:2 is 20.0 times slower" in row["sentence"]


def test_of_messages_that_were_stored_slowly_the_bookies_are_named() -> None:
    slow = {"total_ns": 2 * SECOND, "wait_ns": 2 * SECOND, **AT_ONCE}
    (row,) = of_kind("slow_requests", exchanges=[pulsar(call(1, api="SEND", **slow))], connections=[connection()])
    assert row["advice"].startswith("Look at the bookies")


# --- messages that stand twice ---


@pytest.mark.parametrize(
    ("read", "sends", "more", "twice"),
    [
        ([("c1", "1:5"), ("c1", "1:9")], 0, {}, True),  # its producer was not captured
        ([("c1", "1:5"), ("c2", "1:9")], 2, {}, True),
        ([("c1", "1:5"), ("c2", "1:9")], 0, {}, False),  # perhaps of two clusters
        ([("c1", "1:5"), ("c2", "1:9")], -2, {}, False),  # on both sides of a proxy, and in two clusters
        ([("c1", "1:9"), ("c2", "1:9")], 2, {}, False),  # delivered again
        ([("c1", "1:5"), ("c1", "1:9")], 0, {"checksum_stored": b"8"}, False),  # another message
    ],
)
def test_messages_that_a_producer_of_pulsar_sent_again_stand_twice(
    read: list[tuple[str, str]], sends: int, more: Row, twice: bool
) -> None:
    alike = {"topic": "t", "partition": None, "producer": "p-1", "base_sequence": 7, "checksum_stored": b"9"}
    alike |= {"stored_bytes": 50, "first_timestamp": place(1)["time"], "records": 3}
    sent = [pulsar(batch(1 + 4 * n, outcome=None if n == 0 else "ok", **alike)) for n in range(abs(sends))]
    for row in sent[sends > 0 :]:
        row["position"] = "1:9"
    got = [
        pulsar(batch(2 + 4 * n, role="consume", outcome=None, **alike)) | {"connection": by, "position": where}
        for n, (by, where) in enumerate(read)
    ]
    got[-1] |= more
    acks = [acknowledged(8, 9)]
    rows = of_kind("messages_doubled", batches=sent + got, positions=acks, connections=[pulsar(connection())])
    assert len(rows) == twice
    for row in rows:
        assert row["severity"] == "critical"
        assert row["sentence"].startswith(
            "3 messages of topic t stand in it twice, the first at 1:5 and 1:9: producer p-1"
        )
        assert row["advice"].startswith("Turn deduplication on")


@pytest.mark.parametrize(("apart", "took", "verdicts"), [(5, 0.3, 1), (20, 0.3, 2), (5, 3, 2)])
def test_topics_that_move_one_after_the_other_are_told_together(apart: float, took: float, verdicts: int) -> None:
    exchanges, events = [], []
    for n in range(2):
        at, topics = 5 + apart * n, [f"t{n}"]
        close = pulsar(call(at, api="CLOSE_PRODUCER", kind="push", topics=topics, broker=6650))
        exchanges += [close, pulsar(call(at + took, api="PRODUCER", topics=topics, broker=6652))]
        events.append(event("closed_by_broker", close, topic=topics[0]))
    rows = of_kind("topic_moved", exchanges=exchanges, events=events, connections=[connection()])
    assert [row["sentence"].split(" (")[0] for row in rows] == (
        ["Topics t0 and t1 moved once"] if verdicts == 1 else ["Topic t0 moved once", "Topic t1 moved once"]
    )
