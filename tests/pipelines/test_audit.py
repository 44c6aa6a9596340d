"""What `audit` says of messages that were lost, doubled or put out of order."""

import struct
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dissectors
from dissectors.records import schema
from pipelines.tables.audit import TABLES, Statement
from tests.kafka import wire
from tests.pipelines.audited import audited

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
Row = dict[str, Any]
Rows = list[Row]


def place(at: float, client: str = "reader", port: int = 1) -> Row:
    return {
        "site": "s", "protocol": "kafka", "connection": f"10.0.0.2:{port}>10.0.0.1:9092", "incarnation": 0,
        "client_ip": "10.0.0.2", "client_port": port, "server_ip": "10.0.0.1", "server_port": 9092,
        "client_id": client, "time": NOON + timedelta(seconds=at), "file": "a.pcap", "packet": int(at * 10) + 1,
    }  # fmt: skip


def batch(at: float, base: int | None, role: str = "produce", **more: Any) -> Row:
    """Ten messages."""
    client = "writer" if role == "produce" else "reader"
    return {
        **place(at, more.pop("client", client), more.pop("port", 1)), "role": role, "topic": "t", "partition": 0,
        "base_offset": base, "last_offset": None if base is None else base + 9, "records": 10, "outcome": "ok",
        "producer": "7", "checksum_kind": "crc32c", "checksum_stored": f"0x{base}", "stored_bytes": 100,
        "exchange_id": f"{role}-{at}",
    } | more  # fmt: skip


def committed(at: float, offset: int, client: str = "reader") -> Row:
    return place(at, client) | {
        "what": "committed", "topic": "t", "partition": 0, "value": offset, "group": "g", "api": "OffsetCommit",
        "exchange_id": f"commit-{at}",
    }  # fmt: skip


def asked(at: float, offset: int, end: int) -> Rows:
    """A Fetch from an offset, and its answer that says where the partition ends."""
    common = place(at) | {"topic": "t", "partition": 0, "api": "Fetch", "exchange_id": f"fetch-{at}"}
    return [common | {"what": "fetch", "value": offset}, common | {"what": "high_watermark", "value": end}]


def joined(at: float, client: str = "reader") -> Row:
    return place(at, client) | {"api": "JoinGroup", "kind": "call", "status": "ok", "group": "g", "request": None}


def told(
    batches: Rows,
    positions: Rows,
    exchanges: Rows | None = None,
    events: Rows | None = None,
    cut: str = "",
    errors: Rows | None = None,
    **connection: Any,
) -> list[Statement]:
    """The statements on some records of which only what matters is given."""
    common = {"start_time": NOON, "gap_bytes": 0, "cut_bytes": 0, "gaps": 0}
    given = {
        "exchanges": [joined(0)] if exchanges is None else exchanges,
        "batches": batches,
        "positions": positions,
        "events": events or [],
        "errors": errors or [],
        "connections": [place(0) | common | connection],
    }
    return audited(made_of(given), cut)


def made_of(given: dict[str, Rows]) -> dict[str, pa.Table]:
    """Record tables of rows; those that are not given are empty."""
    return {name: pa.Table.from_pylist(given.get(name, []), schema(name)) for name in TABLES}


def both(*bases: int, lacks: tuple[int, ...] = (), **more: Any) -> Rows:
    """Batches that were produced, and, but for those that are lacking, delivered."""
    made = [batch(n, base, **more) for n, base in enumerate(bases)]
    return made + [batch(50 + n, base, "consume") for n, base in enumerate(bases) if base not in lacks]


def test_what_was_acknowledged_and_skipped_is_lost() -> None:
    (lost,) = told(both(0, 10, 20, 30, lacks=(10,)), [*asked(51, 10, 40), committed(90, 40)])
    assert (lost.what, lost.topic, lost.group, lost.messages) == ("lost", "t", "g", 10)
    assert lost.sentence == (
        "10 messages of topic t, offsets 10 to 19 of partition 0, were acknowledged and never delivered to group g, "
        "which went past."
    )
    assert (lost.file, lost.packet) == ("a.pcap", 11)  # where they were produced


def test_what_was_delivered_is_said_with_what_that_rests_on() -> None:
    (whole,) = told(both(0, 10, 20, 30), [committed(90, 40)])
    assert (whole.what, whole.messages) == ("delivered", 40)
    assert "committed" in whole.rests_on


@pytest.mark.parametrize(
    ("why", "positions", "more"),
    [
        ("not read yet", [committed(90, 10)], {}),
        ("retention removed it", [committed(90, 40), committed(91, 40) | {"what": "log_start", "value": 20}], {}),
        ("bytes are missing", [committed(90, 40)], {"gap_bytes": 100}),
        ("packets were cut", [committed(90, 40)], {"cut_bytes": 100}),
        ("nothing was committed", [], {}),
    ],
)
def test_nobody_is_accused_without_proof(why: str, positions: Rows, more: Row) -> None:
    found = told(both(0, 10, 20, 30, lacks=(10,)), positions, **more)
    assert "lost" not in {statement.what for statement in found}, why


@pytest.mark.parametrize("asked_for", [[*asked(51, 10, 40), committed(90, 40)], [committed(90, 40)], []])
def test_where_rows_are_left_out_nobody_is_accused_and_the_filter_is_named(asked_for: Rows) -> None:
    (unknown,) = told(both(0, 10, 20, 30, lacks=(10,)), asked_for, cut="client app-c")
    assert unknown.what == "cannot tell"
    assert unknown.sentence == (
        "Whether group g got all messages of topic t cannot be told: the filter (client app-c) leaves out what may "
        "answer that. Ask without it."
    )


def test_what_was_doubled_is_doubled_whatever_is_left_out_and_says_what_was_looked_at() -> None:
    again = [*both(0, 10), batch(60, 0, "consume"), batch(61, 10, "consume")]
    found = told(again, [*asked(59, 0, 20), committed(55, 20)], cut="since 12:00")
    assert "doubled" in {each.what for each in found}
    assert all("since 12:00" in each.rests_on + each.sentence for each in found)


def test_what_one_answer_holds_around_a_batch_proves_that_it_is_lost() -> None:
    batches = both(0, 10, 20, 30, lacks=(10,))
    for row in batches[4:]:
        row["exchange_id"] = "one"
    assert [each.what for each in told(batches, [*asked(50, 0, 40), committed(90, 40)])] == ["lost"]


@pytest.mark.parametrize(
    ("why", "positions"),
    [
        ("a seek", [*asked(50, 0, 40), *asked(51, 20, 40)]),
        ("nothing to read yet", [*asked(50, 0, 40), *asked(51, 10, 10), *asked(52, 20, 40)]),
        ("asked before it was produced", [*asked(0.5, 10, 40), *asked(52, 20, 40)]),
    ],
)
def test_what_nobody_asked_for_is_skipped_and_not_lost(why: str, positions: Rows) -> None:
    (skipped,) = told(both(0, 10, 20, 30, lacks=(10,)), [*positions, committed(90, 40)])
    assert (skipped.what, skipped.messages) == ("skipped", 10), why
    assert "without asking for them" in skipped.sentence


def ends_at(at: float, offset: int) -> Row:
    """The end of the partition, as ListOffsets says it to the reader."""
    return asked(at, 0, offset)[1] | {"api": "ListOffsets", "exchange_id": f"list-{at}"}


@pytest.mark.parametrize(
    ("why", "positions", "more"),
    [
        ("the answer was full of another partition", [], batch(51, 0, "consume", partition=1, exchange_id="fetch-51")),
        ("it went on at the end that it had asked for", [ends_at(51.5, 20)], {}),
    ],
)
def test_an_empty_answer_alone_proves_no_loss(why: str, positions: Rows, more: Row) -> None:
    positions = [*asked(51, 10, 40), *positions, *asked(52, 20, 40), committed(90, 40)]
    found = told([*both(0, 10, 20, 30, lacks=(10,)), *([more] if more else [])], positions)
    assert [each.what for each in found] == ["skipped"], why


@pytest.mark.parametrize(
    ("what", "lacks", "positions"),
    [
        ("skipped", (20, 30), [*asked(52, 40, 40)]),  # it went on at the end
        ("lost", (20, 30), [*asked(52, 20, 40), *asked(53, 40, 40)]),  # it had asked for them, and got nothing
        ("skipped", (0, 10), [committed(1, 0) | {"api": "OffsetFetch"}]),  # where the group stood, it did not begin
        ("delivered", (20, 30), []),  # nobody is known to have read on behind them
        ("delivered", (0, 10), []),  # nor to have stood before them
    ],
)
def test_a_group_went_past_what_lies_between_where_it_stood_and_where_it_read_on(
    what: str, lacks: tuple[int, ...], positions: Rows
) -> None:
    (found,) = told(both(0, 10, 20, 30, lacks=lacks), [*positions, committed(90, 40)])
    assert (found.what, found.messages) == (what, 20)


def test_of_iggy_only_what_one_answer_holds_around_a_batch_proves_that_it_is_lost() -> None:
    iggy = {"protocol": "iggy", "group": "g"}
    stored = committed(90, 40) | iggy | {"api": "STORE_CONSUMER_OFFSET"}
    batches = [row | iggy for row in both(0, 10, 20, 30, lacks=(10,))]
    (skipped,) = told(batches, [stored])
    assert (skipped.what, "deleted by age or size" in skipped.sentence) == ("skipped", True)
    assert [each.what for each in told([row | {"exchange_id": row["role"]} for row in batches], [stored])] == ["lost"]


def test_what_two_groups_of_one_client_id_read_of_a_topic_is_told_of_neither() -> None:
    other, elsewhere = {"group": "h"}, {"topic": "u"}
    batches, both_join = both(0, 10, 20, lacks=(10,)), [joined(0), joined(1) | other]
    found = told(batches, [committed(90, 30), committed(91, 30) | other], both_join)
    assert [(each.what, each.group, "same address" in each.sentence) for each in found] == [
        ("cannot tell", "g", True), ("cannot tell", "h", True),
    ]  # fmt: skip
    found = told(both(0, 10, 20), [committed(90, 30), committed(91, 30) | other | elsewhere], both_join)
    assert [(each.what, each.group) for each in found if each.topic == "t"] == [("delivered", "g")]


def test_messages_behind_an_open_transaction_could_not_be_read() -> None:
    stable = asked(51, 10, 40)[1] | {"what": "last_stable", "value": 10}
    found = told(both(0, 10, 20, 30, lacks=(10,)), [*asked(51, 10, 40), stable, committed(90, 40)])
    assert [each.what for each in found] == ["skipped"]


def test_of_a_compacted_topic_nothing_can_be_told() -> None:
    def what(batches: Rows, *events: Row) -> list[str]:
        found = told(batches, [*asked(51, 10, 40), committed(90, 40)], events=[*events])
        return [each.what for each in found]

    lacking = both(0, 10, 20, 30, lacks=(10,))
    assert what(lacking) == ["lost"]
    assert what(lacking, policy("compact,delete")) == ["cannot tell"]
    assert what(lacking, policy("delete")) == ["lost"]
    assert what([*lacking[:-1], lacking[-1] | {"records": 3, "format": "magic 2"}]) == ["cannot tell"]


def policy(value: str, topic: str = "t") -> Row:
    """The event that a request or an answer says the cleanup.policy of a topic."""
    return place(0) | {"kind": "compacted", "topic": topic, "text": value, "direction": "client"}


def test_of_messages_with_keys_nothing_is_lost_unless_their_topic_is_known_not_to_be_compacted() -> None:
    keyed = both(0, 10, 20, 30, lacks=(10,), keyed=True)
    positions = [*asked(51, 10, 40), committed(90, 40)]
    assert [each.what for each in told(keyed, positions)] == ["cannot tell"]
    assert [each.what for each in told(keyed, positions, events=[policy("delete")])] == ["lost"]


def test_members_that_a_broker_sent_to_a_follower_are_not_said_to_lack_messages() -> None:
    sent_away = place(40) | {"kind": "preferred_replica", "topic": "t", "number": 2, "direction": "server"}
    positions = [*asked(51, 10, 40), committed(90, 40)]
    (unsure,) = told(both(0, 10, 20, 30, lacks=(10,)), positions, events=[sent_away])
    assert unsure.what == "cannot tell"
    assert "another replica" in unsure.sentence


def test_what_a_share_group_acquires_is_no_delivery_to_a_group() -> None:
    batches = [row | ({"api": "ShareFetch"} if row["role"] == "consume" else {}) for row in both(0, 10, 20)]
    assert [each.what for each in told(batches, [committed(90, 30)])] == ["cannot tell"]


def test_a_batch_that_was_refused_is_not_lost() -> None:
    batches = both(0, 10, 20, 30, lacks=(10,))
    batches[1] |= {"outcome": "error"}
    assert [each.what for each in told(batches, [committed(90, 40)])] == ["delivered"]


def test_batches_at_the_ends_of_what_was_delivered_are_not_judged() -> None:
    found = told(both(0, 10, 20, 30, lacks=(0, 30)), [committed(90, 40)])
    assert [(each.what, each.messages) for each in found] == [("delivered", 20)]


def test_where_the_capture_shows_no_producer_it_says_so() -> None:
    (unsure,) = told([batch(5, 0, "consume")], [committed(90, 10)])
    assert (unsure.what, unsure.messages) == ("cannot tell", None)
    assert "no batch of it that a broker acknowledged" in unsure.sentence


def test_a_batch_that_came_twice_is_told_with_what_lies_between() -> None:
    def why(more: Rows, positions: Rows, exchanges: Rows) -> str:
        found = told([*both(0, 10), *more], positions, [joined(0), *exchanges])
        (twice,) = [each for each in found if each.what == "doubled"]
        assert twice.messages == 10
        return twice.sentence.rpartition(": ")[2]

    again = [batch(60, 10, "consume")]
    other = [batch(60, 10, "consume", client="other")]
    assert why(again, [committed(55, 20)], []) == "the member fetched them again."
    assert why(again, [committed(52, 20), committed(58, 10)], []) == "the group committed a smaller offset than before."
    assert why(other, [committed(55, 20)], [joined(0, "other"), joined(55, "other")]) == (
        "a rebalance gave the partition to another member, which began before the committed offset."
    )


def test_only_what_the_group_had_committed_and_asks_for_again_is_doubled() -> None:
    def messages(position: int, offset: int) -> list[int | None]:
        """Of offsets 10 to 19 that come again: of a Fetch from a position, where the group had committed an offset."""
        again = batch(60, 10, "consume", exchange_id="fetch-59")
        positions = [*asked(59, position, 20), committed(55, offset), committed(90, 20)]
        return [each.messages for each in told([*both(0, 10), again], positions) if each.what == "doubled"]

    assert messages(position=10, offset=20) == [10]
    assert messages(position=15, offset=20) == [5]  # answers hold whole batches
    assert messages(position=10, offset=14) == [4]  # the others had been fetched ahead, and nobody processed them
    assert messages(position=14, offset=14) == []


def test_what_was_fetched_ahead_and_dropped_is_told_apart_from_what_is_doubled() -> None:
    def said(position: int, offset: int) -> list[tuple[str, int | None]]:
        again = batch(60, 10, "consume", exchange_id="fetch-59", client="other")
        positions = [*asked(59, position, 20), committed(55, offset), committed(90, 20)]
        found = told([*both(0, 10), again], positions, [joined(0), joined(0, "other"), joined(55, "other")])
        return [(each.what, each.messages) for each in found if each.what in ("doubled", "fetched again")]

    assert said(position=10, offset=14) == [("doubled", 4), ("fetched again", 6)]
    assert said(position=14, offset=14) == [("fetched again", 6)]
    assert said(position=10, offset=20) == [("doubled", 10)]


def test_what_a_group_of_iggy_polls_again_is_doubled_where_it_had_stored_an_offset_behind_it() -> None:
    def said(stored: int) -> list[tuple[str, int | None]]:
        iggy = {"protocol": "iggy", "producer": None, "group": "g"}
        batches = [row | iggy for row in [*both(0, 10), batch(60, 10, "consume")]]
        positions = [committed(55, stored) | iggy, committed(90, 20) | iggy]
        found = told(batches, [row | {"api": "STORE_CONSUMER_OFFSET"} for row in positions], [])
        return [(each.what, each.messages) for each in found if each.what != "delivered"]

    assert said(stored=10) == [("fetched again", 10)]
    assert said(stored=20) == [("doubled", 10)]


@pytest.mark.parametrize(
    ("change", "twice"),
    [
        ({"kind": "altered", "thing": "topic", "topic": "t", "text": "purged"}, []),
        ({"kind": "deleted", "thing": "stream", "topic": "t", "number": 0}, []),
        ({"kind": "deleted", "thing": "topic", "topic": "t", "number": 2010}, [10]),
        ({"kind": "altered", "thing": "topic", "topic": "other", "text": "purged"}, [10]),
    ],
    ids=["purged", "deleted", "not deleted", "another topic"],
)
def test_what_came_after_a_topic_was_emptied_are_other_messages(change: Row, twice: list[int]) -> None:
    iggy: Row = {"protocol": "iggy", "producer": None, "group": "g"}
    batches = [row | iggy for row in [*both(0, 10), batch(60, 10, "consume")]]
    stored = [committed(at, 20) | iggy | {"api": "STORE_CONSUMER_OFFSET"} for at in (55, 90)]
    found = told(batches, stored, [], [place(58) | {"protocol": "iggy"} | change])
    assert [each.messages for each in found if each.what == "doubled"] == twice


def test_messages_that_came_three_times_are_counted_once_with_their_further_deliveries() -> None:
    again = [batch(60, 10, "consume"), batch(61, 10, "consume")]
    (thrice,) = [each for each in told([*both(0, 10), *again], [committed(55, 20)]) if each.what == "doubled"]
    assert thrice.messages == 10
    assert "10 messages of topic t came to group g more than once, with 20 deliveries after the first: " in (
        thrice.sentence
    )


def same(at: float, base: int | None, **more: Any) -> Row:
    """A batch of a producer that is not idempotent, always the same bytes."""
    return batch(at, base, producer=None, checksum_stored="0xa", **more)


def test_a_resend_without_idempotence_is_two_messages_at_two_offsets() -> None:
    unanswered, accepted = same(1, None, outcome="unknown"), same(3, 20, connection="another")
    taken = [same(60, 0, role="consume"), same(61, 20, role="consume")]
    found = told([unanswered, accepted, *taken], [], [])
    assert [(each.what, each.messages) for each in found if each.what != "cannot tell"] == [("sent twice", 10)]
    assert told([unanswered, accepted], [], []) == []  # the broker may have taken it once only
    idempotent = [row | {"producer": "7"} for row in (unanswered, accepted, *taken)]
    assert told(idempotent, [], []) == []


def test_equal_batches_that_were_all_accepted_are_what_the_application_sent() -> None:
    assert told([same(1, 0), same(2, 10), same(60, 0, role="consume"), same(61, 10, role="consume")], [], []) == []


def test_a_batch_that_was_sent_again_may_stand_behind_later_ones() -> None:
    later = batch(2, 10, producer=None)
    for outcome in ("unknown", "error"):
        assert [each.what for each in told([same(1, None, outcome=outcome), later, same(3, 20)], [])] == [
            "out of order"
        ]
    assert told([later, same(3, 20)], []) == []  # sent once
    assert told([same(1, None, outcome="error"), same(1.5, 0), later], []) == []  # before what came later


def test_a_batch_that_was_stored_though_its_answer_is_an_error_is_told_with_the_error() -> None:
    refused, later = same(1, None, outcome="error"), batch(2, 10, producer=None)
    error = place(1.1, "writer") | {
        "topic": "t", "partition": 0, "name": "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "exchange_id": "produce-1",
    }  # fmt: skip
    read = [same(60, 0, role="consume"), same(61, 20, role="consume")]
    found = told([refused, later, same(3, 20), *read], [], [], errors=[error])
    (twice,) = [each for each in found if each.what != "cannot tell"]  # not out of order: it stands at offset 0 as well
    assert twice.sentence == (
        "10 messages stand in topic t once more than 10.0.0.2 writer meant: the answer was "
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND, it sent them again, and it is not idempotent."
    )
    assert "answered with an error" in twice.rests_on


def test_what_was_sent_after_the_resend_was_accepted_says_nothing_of_its_order() -> None:
    created_again = [batch(20 + n, base, producer=None) for n, base in enumerate((0, 10))]
    assert told([same(1, None, outcome="error"), same(3, 100), *created_again], []) == []


def test_what_was_sent_with_few_confirmations_is_told_with_the_risk() -> None:
    def sent(acks: int | None, kind: str) -> list[str]:
        produce = place(1, "writer") | {"api": "Produce", "kind": kind, "exchange_id": "produce-1", "acks": acks}
        return [each.sentence for each in told([batch(1, 0)], [], [produce]) if each.what == "unconfirmed"]

    assert sent(0, "oneway") == [
        "10.0.0.2 writer sent 10 messages of topic t with acks=0: no answer says whether a broker took them."
    ]
    assert "if the leader fails" in sent(1, "call")[0]
    assert sent(-1, "call") == []
    assert sent(None, "call") == []


def test_what_was_sent_with_few_confirmations_is_counted_once_however_often_it_was_sent() -> None:
    def messages(*batches: Row, acks: int = 1) -> list[int | None]:
        sent = [place(1, "writer") | {"exchange_id": row["exchange_id"], "acks": acks} for row in batches]
        return [each.messages for each in told([*batches], [], sent) if each.what == "unconfirmed"]

    assert messages(same(1, None, outcome="error"), same(2, 0), batch(3, 10)) == [20]
    assert messages(same(1, None, outcome="unknown"), same(2, 0)) == [10]
    assert messages(same(1, 0), same(2, 10)) == [20]  # the application made them equal
    assert messages(same(1, None, outcome="unknown"), same(2, None, outcome="unknown"), acks=0) == [20]
    assert messages(same(1, None, outcome="error")) == []


def stands(at: float, stable: int, high: int) -> Rows:
    """An answer to Fetch that says how far readers of committed messages may read, and where the partition ends."""
    common = place(at) | {"topic": "t", "partition": 0, "exchange_id": f"fetch-{at}"}
    return [common | {"what": "last_stable", "value": stable}, common | {"what": "high_watermark", "value": high}]


def held(batches: Rows, positions: Rows, exchanges: Rows | None = None, events: Rows | None = None) -> list[Statement]:
    return [each for each in told(batches, positions, exchanges, events) if each.what == "held"]


def test_a_transaction_that_holds_readers_is_told_with_who_and_how_long() -> None:
    positions = [*stands(2, 10, 20), *stands(7, 10, 50), *stands(8, 60, 70), *stands(9.5, 60, 80)]
    mine, other = held([batch(1, 10, transactional=True)], positions)
    assert mine.sentence == (
        "In partition 0 of topic t, a transaction of 10.0.0.2 writer held readers of committed messages at offset 10 "
        "for 6.00 s at least, up to 40 messages before the end."
    )
    assert "began before the capture" in other.sentence


def test_transactions_of_a_producer_that_held_readers_are_one_statement_of_the_longest() -> None:
    batches = [batch(n, 10 * n, transactional=True) for n in (1, 3, 6)]
    positions = [*stands(1.2, 10, 20), *stands(4.5, 30, 40), *stands(6.2, 60, 70)]
    (longest,) = held(batches, positions)
    assert (longest.time_ns, longest.messages) == (1_500_000_000, 10)
    assert "at offset 30 for 1.50 s at least, up to 10 messages before the end, the longest of 3 times." in (
        longest.sentence
    )
    assert held(batches, [*stands(1.2, 10, 20), *stands(6.2, 60, 70)]) == []  # for moments


def test_a_transaction_that_held_readers_is_named_and_lasts_until_it_ended() -> None:
    began = place(0.5, "writer") | {
        "kind": "transaction_began", "subject": "pay-1", "text": "7", "number": 60_000, "direction": "server",
    }  # fmt: skip
    end = place(9, "writer") | {
        "api": "EndTxn", "kind": "call", "status": "ok", "exchange_id": "end", "total_ns": 500_000_000,
    }  # fmt: skip
    (named,) = held([batch(1, 10, transactional=True)], stands(2, 10, 20), [end], [began])
    assert (named.transaction, named.time_ns) == ("pay-1", 8_500_000_000)
    assert "transaction pay-1 of 10.0.0.2 writer held readers of committed messages at offset 10 for 8.50 s, up" in (
        named.sentence
    )
    assert "lets it stay open for 60.0 s" in named.sentence


def pulsar(row: Row, **more: Any) -> Row:
    return row | {"protocol": "pulsar", "client_id": None, "partition": None, "topic": "t", "group": "g"} | more


def test_what_subscriptions_of_one_name_did_on_other_topics_is_no_cause() -> None:
    entry = batch(1, None, position="7:0")
    again = [pulsar(entry | {"role": "consume", "time": NOON + timedelta(seconds=at)}) for at in (2, 9)]

    def why(api: str, topic: str) -> str:
        command = pulsar(place(5), api=api, topics=[topic])
        (twice,) = [each for each in told([entry, *again], [], [command]) if each.what == "doubled"]
        return twice.sentence.rpartition(": ")[2]

    assert why("SEEK", "t") == "a consumer went back with SEEK."
    assert why("SEEK", "other") == why("SUBSCRIBE", "other") == "the broker delivered them again."


def test_what_subscriptions_of_one_name_did_on_other_topics_does_not_explain_a_loss() -> None:
    sent = [pulsar(batch(n, None, position=f"7:{n}"), group=None) for n in range(3)]
    got = [pulsar(batch(10 + n, None, "consume", position=f"7:{n}")) for n in (0, 2)]
    acknowledged = pulsar(place(20), what="committed", api="ACK", ledger=7, value=2)
    subscribed = pulsar(place(0), kind="joined", text="Exclusive")

    def what(topic: str) -> list[str]:
        seek = pulsar(place(11), api="SEEK", topics=[topic])
        return [each.what for each in told([*sent, *got], [acknowledged], [seek], [subscribed])]

    assert what("t") == ["delivered"]
    assert what("other") == ["lost", "delivered"]


@pytest.mark.parametrize(("lacks", "excuse"), [
    (range(1, 30, 2), "doubtful"), (range(5, 20), None), ((3, 9), None),
])  # fmt: skip
def test_many_gaps_apart_from_each_other_may_be_what_a_filter_left_out(lacks: Any, excuse: str | None) -> None:
    sent = [pulsar(batch(n, None, position=f"7:{n}"), group=None) for n in range(31)]
    got = [pulsar(batch(40 + n, None, "consume", position=f"7:{n}")) for n in range(31) if n not in lacks]
    done = pulsar(place(80), what="committed", api="ACK", ledger=7, value=30)
    lost, _ = told([*sent, *got], [done], [], [pulsar(place(0), kind="joined", text="Exclusive")])
    assert (lost.what, lost.excuse) == ("lost", excuse)
    assert ("15 gaps, as a filter of the broker leaves them." in lost.sentence) == (excuse is not None)


def test_what_several_partitions_lost_is_not_said_to_be_of_one() -> None:
    whose = [{"partition": part} for part in (0, 1) for _ in range(3)]
    sent = [pulsar(batch(n, None, position=f"7:{n % 3}"), group=None) | whose[n] for n in range(6)]
    got = [pulsar(batch(10 + n, None, "consume", position=f"7:{n % 3}")) | whose[n] for n in (0, 2, 3, 5)]
    done = [pulsar(place(20), what="committed", api="ACK", ledger=7, value=2, partition=part) for part in (0, 1)]
    lost, _ = told([*sent, *got], done, [], [pulsar(place(0), kind="joined", text="Exclusive")])
    assert "of topic t, 2 partitions (first 0), from entry 7:1 on, were" in lost.sentence


def test_what_a_subscription_went_past_with_seek_is_skipped() -> None:
    sent = [pulsar(batch(n, None, position=f"7:{n}"), group=None) for n in range(4)]
    positions = [
        pulsar(place(20), what="committed", api="SEEK", ledger=7, value=3),
        pulsar(place(40), what="committed", api="ACK", ledger=7, value=3),
    ]

    def said(*got: tuple[float, int]) -> list[Statement]:
        came = [pulsar(batch(at, None, "consume", position=f"7:{n}")) for at, n in got]
        seek = pulsar(place(20), api="SEEK", topics=["t"])
        return told([*sent, *came], positions, [seek], [pulsar(place(0), kind="joined", text="Exclusive")])

    skipped, delivered = said((10, 0), (30, 3))
    assert (skipped.what, skipped.messages, delivered.what, delivered.messages) == ("skipped", 20, "delivered", 20)
    assert skipped.sentence == (
        "20 messages of topic t, from entry 7:1 on, were acknowledged and never delivered to subscription g, which "
        "went past them with SEEK."
    )
    assert [each.what for each in said((30, 3))] == ["delivered"]  # it had not come to what lies before
    assert "skipped" not in {each.what for each in said((10, 0), (19, 2), (30, 3), (31, 1))}  # it came later


@pytest.mark.parametrize(("code", "what"), [(0, ["skipped", "delivered"]), (4, ["delivered"])])
def test_what_came_while_a_subscription_was_deleted_is_skipped(code: int, what: list[str]) -> None:
    sent = [pulsar(batch(n, None, position=f"7:{n}"), group=None) for n in range(4)]
    got = [pulsar(batch(at, None, "consume", position=f"7:{n}")) for at, n in ((0.5, 0), (30, 3))]
    acknowledged = pulsar(place(40), what="committed", api="ACK", ledger=7, value=3)
    unsubscribes = pulsar(place(1), api="UNSUBSCRIBE", topics=["t"])
    events = [
        pulsar(place(0), kind="joined", text="Exclusive"),
        pulsar(place(1), kind="deleted", thing="subscription", number=code),
    ]
    said = told([*sent, *got], [acknowledged], [unsubscribes], events)
    assert [each.what for each in said] == what
    if not code:
        assert said[0].messages == 20
        assert said[0].sentence.endswith("subscription g, which was deleted and made again behind them.")


def in_epoch(at: float, base: int, epoch: int, value: bytes, **more: Any) -> Row:
    """A batch whose checksum is that of its bytes, of a producer in an epoch."""
    raw = wire.batch([wire.record(0, None, value)], base, producer=(7, epoch, 0))
    stored = struct.unpack_from(">I", raw, 17)[0]
    return batch(
        at, base, producer_epoch=epoch, base_sequence=0, checksum_stored=f"0x{stored:08x}", stored_bytes=len(raw),
        last_offset=base, records=1, format="magic 2", first_timestamp=NOON, max_timestamp=NOON, **more,
    )  # fmt: skip


def test_messages_that_were_sent_again_under_another_epoch_stand_twice() -> None:
    kept = in_epoch(60, 10, 0, b"value", role="consume")  # its answer was lost, so no offset of it was produced
    again = in_epoch(5, 11, 1, b"value")
    (twice,) = told([kept, again], [], [])
    assert (twice.what, twice.messages) == ("sent twice", 1)
    assert "at offsets 10 and 11: 10.0.0.2 writer began a new epoch" in twice.sentence
    assert told([kept, in_epoch(5, 11, 1, b"other")], [], []) == []
    assert told([kept, in_epoch(5, 10, 0, b"value")], [], []) == []  # the same batch


def test_batches_that_are_removed_from_a_sample_are_found_and_no_others(samples: list[str]) -> None:
    path = next(path for path in samples if "kafka-loss.pcap" in path)
    tables = dissectors.dissect([path], [*TABLES])
    assert {each.what for each in audited(tables)} == {"delivered"}
    batches = tables["batches"]
    consumed = batches.filter(pc.and_(pc.equal(batches["role"], "consume"), pc.equal(batches["topic"], "loss-none")))
    ordered = sorted(set(consumed["base_offset"].to_pylist()))
    gone = ordered[len(ordered) // 2]
    mine = pc.and_(pc.equal(batches["topic"], "loss-none"), pc.equal(batches["base_offset"], gone))
    left = batches.filter(pc.invert(pc.and_(mine, pc.equal(batches["role"], "consume"))))
    found = audited({**tables, "batches": left})
    assert [(each.what, each.topic) for each in found] == [("lost", "loss-none"), ("delivered", "loss-lz4")]
    assert f"offsets {gone} to " in found[0].sentence


def led(at: float, leader: str, epoch: int, isr: list[str]) -> Row:
    return place(at, "writer") | {
        "what": "leader", "topic": "t", "partition": 0, "leader": leader, "leader_epoch": epoch, "isr": isr,
        "api": "Metadata", "value": int(leader),
    }  # fmt: skip


UNCLEAN = [led(0, "1", 3, ["1", "2"]), led(20, "3", 4, ["3"])]
CLEAN = [led(0, "1", 3, ["1", "2"]), led(20, "2", 4, ["2"])]


def overwritten(*later: Row, positions: Rows = UNCLEAN, acks: int = -1, **exchange: Any) -> list[Statement]:
    """Losses where offsets 0, 10 and 20 were acknowledged at first, and then what is given."""
    first = [batch(n + 1, base) for n, base in enumerate((0, 10, 20))]
    sent = [
        place(1) | {"api": "Produce", "kind": "call", "exchange_id": row["exchange_id"], "acks": acks} for row in first
    ]
    more = [place(10) | {"kind": "call", "topics": ["t"]} | exchange] if exchange else []
    return [each for each in told([*first, *later], positions, [*sent, *more]) if each.what == "lost"]


def test_what_a_later_leader_has_other_messages_for_is_lost() -> None:
    (lost,) = overwritten(batch(30, 10, producer="8"))
    assert (lost.topic, lost.group, lost.messages, lost.packet) == ("t", None, 20, 21)
    assert lost.sentence == (
        "20 messages of topic t, offsets 10 to 29 of partition 0, were acknowledged in leader epoch 3 and are gone "
        "from the log, which has other messages at their offsets since leader epoch 4 at the latest: broker 3 took "
        "over, which was not among the in-sync replicas 1, 2."
    )


@pytest.mark.parametrize(("leaders", "doubled"), [(UNCLEAN, False), (UNCLEAN[:1], True)])
def test_other_messages_at_the_offsets_of_lost_ones_came_once(leaders: Rows, doubled: bool) -> None:
    stored = [batch(1, 10), batch(30, 10, producer="8")]
    read = [batch(5, 10, role="consume"), batch(40, 10, role="consume", producer="8")]
    found = told([*stored, *read], [*leaders, committed(6, 20)], [joined(0)])
    assert ("doubled" in [each.what for each in found]) == doubled


def test_one_message_that_is_lost_is_told_in_the_singular() -> None:
    sent = batch(2, 10, last_offset=10, records=1)
    (lost,) = [each for each in told([sent, batch(30, 10, producer="8")], UNCLEAN, []) if each.what == "lost"]
    assert lost.sentence.startswith(
        "1 message of topic t, offset 10 of partition 0, was acknowledged in leader epoch 3 and is gone from the log, "
        "which has another message at its offset since leader epoch 4 at the latest"
    )


def test_a_consumer_that_gets_other_messages_at_acknowledged_offsets_shows_the_loss() -> None:
    (lost,) = overwritten(batch(30, 20, role="consume", producer="8"))
    assert lost.messages == 10


@pytest.mark.parametrize(("acks", "why"), [(1, "acks=1"), (-1, "acks=all")])
def test_a_loss_by_a_change_of_the_leader_says_what_the_producer_had_asked_for(acks: int, why: str) -> None:
    (lost,) = overwritten(batch(30, 10, producer="8"), positions=CLEAN, acks=acks)
    assert why in lost.sentence


@pytest.mark.parametrize(
    ("why", "later", "given"),
    [
        ("offsets go on", batch(30, 30, producer="8"), {}),
        ("the broker took the same batch again", batch(30, 20), {}),
        ("a consumer got what was acknowledged", batch(30, 20, role="consume"), {}),
        ("a broker may store what is not idempotent with another checksum",
         batch(30, 20, role="consume", producer=None, checksum_stored="0xff"), {}),
        ("the leader is the same", batch(30, 10, producer="8"), {"positions": UNCLEAN[:1]}),
        ("the epoch was known before", batch(30, 10, producer="8"),
         {"positions": [led(0, "1", 3, ["1"]), led(0.5, "2", 4, ["2"])]}),
        ("the topic was made anew", batch(30, 10, producer="8"), {"api": "DeleteTopics"}),
        ("offsets begin at 0 again", batch(30, 0, producer="8"), {}),
        ("it was refused", batch(30, 10, producer="8", outcome="error"), {}),
    ],
)  # fmt: skip
def test_no_leader_is_accused_without_other_messages_at_the_offsets(why: str, later: Row, given: Row) -> None:
    assert overwritten(later, **given) == [], why


def test_batches_at_offsets_that_were_given_twice_are_not_said_to_be_delivered() -> None:
    batches = [batch(1, 0), batch(2, 10), batch(3, 20), batch(30, 10, producer="8"), batch(31, 20, producer="8")]
    got = [batch(50 + n, base, "consume", producer="8") for n, base in enumerate((0, 10, 20))]
    found = told([*batches, *got], [*UNCLEAN, committed(90, 30)])
    assert [(each.what, each.messages) for each in found] == [("lost", 20), ("delivered", 10)]


@pytest.mark.parametrize(
    ("why", "gone", "end", "given"),
    [
        ("it ends before where it ended", 14, 76, {}),
        ("it ends where it ended", None, 90, {}),
        ("the server was there all the time", None, 76, {"until": 40}),
        ("somebody purged the topic", None, 76, {"change": {"kind": "altered", "topic": "t", "text": "purged"}}),
        ("somebody wanted to make it, as it is", 14, 76, {"change": {"kind": "created", "topic": "t", "number": 2012}}),
        ("another server has fewer messages", None, 76, {"server_port": 9093}),
    ],
)
def test_what_a_server_of_iggy_no_longer_has_after_it_stopped_is_lost(
    why: str, gone: int | None, end: int, given: Row
) -> None:
    iggy = {"protocol": "iggy", "api": "POLL_MESSAGES", "what": "high_watermark", "topic": "t", "partition": 0}
    before = place(10) | iggy | {"value": 90}
    after = place(30, port=2) | iggy | {"value": end, "server_port": given.get("server_port", 9092)}
    ends = {"gap_bytes": 0, "cut_bytes": 0, "gaps": 0}
    first = place(0) | ends | {"start_time": NOON, "end_time": NOON + timedelta(seconds=given.get("until", 20))}
    second = place(0, port=2) | ends | {"start_time": NOON + timedelta(seconds=26), "end_time": NOON + timedelta(60)}
    events = [place(28) | {"protocol": "iggy", "thing": "topic"} | given["change"]] if "change" in given else []
    tables = {"positions": [before, after], "connections": [first, second], "events": events}
    lost = [each for each in audited(made_of(tables)) if each.what == "lost"]
    assert [each.messages for each in lost] == ([gone] if gone else []), why
    assert all("ended at offset 90 before, and at 76 afterwards" in each.sentence for each in lost)


@pytest.mark.parametrize(
    ("why", "bases", "more", "messages"),
    [
        ("it went on behind what was next", [0, 10, 50, 60], {}, 30),
        ("it got one after the other", [0, 10, 20, 30], {}, None),
        ("it always chooses where to read", [0, 20, 40, 60], {}, None),
        ("bytes are missing", [0, 10, 50, 60], {"gaps": 1}, None),
    ],
)
def test_a_reader_of_iggy_that_went_on_behind_what_was_next_never_got_what_lies_between(
    why: str, bases: list[int], more: Row, messages: int | None
) -> None:
    iggy = {"protocol": "iggy", "group": None}
    polls = [batch(n, base, "consume", **iggy) for n, base in enumerate(bases)]
    stored = [
        committed(one, base + 10) | iggy | {"consumer": "7", "api": "POLL_MESSAGES", "exchange_id": f"consume-{one}"}
        for one, base in enumerate(bases)
    ]
    found = [each for each in told(polls, stored, [], protocol="iggy", **more) if each.what == "skipped"]
    assert [each.messages for each in found] == ([messages] if messages else []), why
    assert all(each.sentence.startswith("Consumer 7 never got 30 messages of topic t") for each in found)


@pytest.mark.parametrize(
    ("why", "change", "messages"),
    [
        ("somebody purged it", {"kind": "altered", "thing": "topic", "topic": "s/t", "text": "purged"}, 70),
        ("its stream was deleted", {"kind": "deleted", "thing": "stream", "topic": "s"}, 70),
        ("it was refused", {"kind": "deleted", "thing": "topic", "topic": "s/t", "number": 41}, None),
        ("it was made, not emptied", {"kind": "created", "thing": "topic", "topic": "s/t"}, None),
        ("another topic was", {"kind": "deleted", "thing": "topic", "topic": "s/u"}, None),
        ("all had been read", {"kind": "deleted", "thing": "topic", "topic": "s/t", "read": 100}, None),
    ],
)
def test_a_reader_of_iggy_whose_topic_was_emptied_never_got_the_rest(
    why: str, change: Row, messages: int | None
) -> None:
    iggy: Row = {"protocol": "iggy", "topic": "s/t", "api": "POLL_MESSAGES"}
    stated = [committed(9, change.pop("read", 30)) | iggy, committed(9, 100) | iggy]
    stated[1] |= {"what": "high_watermark", "group": None}
    done = place(20, "admin") | {"protocol": "iggy", "exchange_id": "done"} | change
    found = [each for each in told([], stated, [], [done]) if each.what == "skipped"]
    assert [each.messages for each in found] == ([messages] if messages else []), why
    assert all("it was purged or deleted when 30 was next" in each.sentence for each in found)


@pytest.mark.parametrize(
    ("why", "got", "purged", "more", "messages"),
    [
        ("it had got less", 49, [20], {}, 50),
        ("it had got all, and not stored it yet", 99, [20], {}, None),
        ("bytes are missing", 49, [20], {"gaps": 1}, None),
        ("it had left before the topic was purged once more", 99, [9.5, 20], {}, None),
    ],
)
def test_what_a_reader_of_iggy_got_is_not_lost_though_it_had_not_stored_that(
    why: str, got: int, purged: list[float], more: Row, messages: int | None
) -> None:
    iggy: Row = {"protocol": "iggy", "topic": "s/t", "group": "g"}
    polls = [batch(8, 0, "consume") | iggy | {"last_offset": got}]
    end = committed(8, 100) | iggy | {"api": "POLL_MESSAGES", "what": "high_watermark", "exchange_id": "consume-8"}
    others = end | place(12) | {"value": 500, "group": "other", "exchange_id": "consume-12", "protocol": "iggy"}
    stored = committed(9, 30) | iggy | {"api": "STORE_CONSUMER_OFFSET"}
    done = [
        place(at, "admin")
        | {"exchange_id": f"{at}", "kind": "altered", "thing": "topic", "topic": "s/t", "text": "purged"}
        | {"protocol": "iggy"}
        for at in purged
    ]
    stated = [end, stored, *([others] if len(purged) > 1 else [])]
    found = [each for each in told(polls, stated, [], done, protocol="iggy", **more) if each.what == "skipped"]
    assert [each.messages for each in found] == ([messages] if messages else []), why


@pytest.mark.parametrize(
    ("change", "excuse"),
    [
        ({"kind": "deleted", "thing": "records", "topic": "t"}, "doubtful"),
        ({"kind": "deleted", "thing": "records", "topic": "other"}, "its own doing"),
        ({"kind": "altered", "thing": "topic", "topic": "t", "text": "message_expiry=5"}, "doubtful"),
        ({"kind": "altered", "thing": "topic", "topic": "t", "text": "name=u"}, "its own doing"),
    ],
)
def test_a_reader_did_not_choose_to_pass_over_what_somebody_deleted(change: Row, excuse: str) -> None:
    iggy: Row = {"protocol": "iggy", "group": "g"}
    polls = [batch(n, base, "consume", **iggy) for n, base in enumerate((0, 10, 50))]
    stored = [
        committed(n, row["base_offset"] + 10) | iggy | {"exchange_id": row["exchange_id"], "api": "POLL_MESSAGES"}
        for n, row in enumerate(polls)
    ]
    cut = place(1.5, "admin") | {"protocol": "iggy"} | change
    assert [each.excuse for each in told(polls, stored, [], [cut]) if each.what == "skipped"] == [excuse]


@pytest.mark.parametrize(
    ("why", "by", "offset", "after", "messages"),
    [
        ("somebody set it forward", "10.0.0.9", 50, 50, 30),
        ("a reader did", "10.0.0.2", 50, 50, None),
        ("it was set to where it stood", "10.0.0.9", 20, 20, None),
        ("it went on elsewhere", "10.0.0.9", 50, 20, None),
        ("bytes are missing", "10.0.0.9", 50, 50, None),
    ],
)
def test_a_group_of_iggy_that_somebody_set_forward_never_got_what_lies_between(
    why: str, by: str, offset: int, after: int, messages: int | None
) -> None:
    iggy: Row = {"protocol": "iggy", "group": "g"}
    polls = [batch(n, base, "consume", **iggy) for n, base in ((1, 10), (9, after))]
    ends = [
        committed(one["packet"], 90) | iggy
        | {key: one[key] for key in ("exchange_id", "time", "client_ip")}
        | {"api": "POLL_MESSAGES", "what": "high_watermark"}
        for one in polls
    ]  # fmt: skip
    store = committed(5, offset) | iggy | {"api": "STORE_CONSUMER_OFFSET", "client_ip": by, "client_id": None}
    asked = [place(n) | {"api": "POLL_MESSAGES", "group": "g", "topics": ["t"]} for n in (1, 4)]  # one has no answer
    lacks: Row = {"protocol": "iggy", "gaps": int(why == "bytes are missing")}
    found = [each for each in told(polls, [*ends, store], asked, **lacks) if each.what == "skipped"]
    assert [each.messages for each in found] == ([messages] if messages else []), why
    assert all(f"partition 0: {by} set it forward from offset 20 to 50." in each.sentence for each in found)
