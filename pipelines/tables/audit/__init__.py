"""Was a message lost, doubled or put out of order? What records prove of it, and what they cannot tell.

lost          acknowledged by the broker, and never delivered to a group that went past: batches before and behind it
              were delivered to its members, and it committed a later offset. Or acknowledged, and gone from the log: a
              later leader gave the offsets to other messages
delivered     what was checked so, and found
skipped       acknowledged, and passed over by a group that never asked for it
cannot tell   why nothing can be said of a topic and a group
doubled       delivered more than once to members of a group, with what lies between the deliveries
fetched again  likewise, but the group had not committed them: what was fetched ahead and dropped costs the network, and
              reached no application, unless it processes messages without a commit
sent twice    the same messages at two offsets: a resend by a producer that is not idempotent, or under another epoch
out of order  a batch that was sent again, and stands behind one that was sent after it
unconfirmed   produced with acks=0, or 1: what that risks
held          a transaction that kept readers of committed messages waiting: the last stable offset stood still

losses.py     of groups of Kafka and Iggy
passed_over.py  by a reset, after a fetch position that the log does not have
overwritten.py  of a log that a later leader of Kafka cut off
entries.py    of subscriptions of Pulsar
doubled.py    what came more than once
resends.py    sent twice, out of order
promises.py   unconfirmed, held

Messages count as delivered when a batch with their offsets was on its way to a client of the group: one that joined it,
beat its heart or committed for it, or, of Iggy, that polled as the group. A group is judged where the connections of
its members have no hole. Retention drops messages on purpose, but brokers say where a log begins, and what lies before
it is not judged.
"""

from __future__ import annotations

from typing import Any

from pipelines.sql.database import Row, fetched
from pipelines.tables.audit import doubled, entries, losses, overwritten, passed_over, promises, resends
from pipelines.tables.audit.statement import LOST, ORDER, SKIPPED, UNKNOWN, Look, Statement

__all__ = ["LOST", "NOT_DELIVERED", "TABLES", "Statement", "audit"]

TABLES = ("exchanges", "batches", "errors", "connections", "positions", "events")
NOT_DELIVERED = (LOST, SKIPPED)
"""What statements say of messages that a broker acknowledged and a group never got."""

_LOOKS: tuple[Look, ...] = (
    losses.losses,
    passed_over.passed_over,
    overwritten.overwritten,
    entries.losses,
    doubled.doubled,
    resends.sent_twice,
    resends.sent_twice_in_epochs,
    resends.disorder,
    promises.unconfirmed,
    promises.held,
)


def audit(duckdb: Any, cut: str = "") -> list[Statement]:
    """All statements, losses first. duckdb: a connection in which the record tables TABLES have their names.

    cut: what was asked for, where the tables have only its rows. Of what is not among them, nothing can be told.
    """

    def ask(query: str) -> list[Row]:
        return fetched(duckdb, query)

    for name, query in {**losses.VIEWS, **doubled.VIEWS, **entries.VIEWS}.items():
        duckdb.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")
    found = [statement for look in _LOOKS for statement in look(ask)]
    if cut:
        found = list(dict.fromkeys(_of_a_part(each, cut) for each in found))
    return sorted(
        found,
        key=lambda each: (ORDER.index(each.what), each.protocol, each.topic or "", each.group or "", each.sentence),
    )


def _of_a_part(said: Statement, cut: str) -> Statement:
    """A statement as far as it holds where other rows are left out: what seems to be missing may be among them."""
    if said.what not in (*NOT_DELIVERED, UNKNOWN):
        return said._replace(rests_on=f"{said.rests_on}; only what was asked for was looked at ({cut})")
    who = f"{'subscription' if said.protocol == 'pulsar' else 'group'} {said.group}" if said.group else "readers"
    return Statement(
        UNKNOWN,
        said.protocol,
        said.topic,
        said.group,
        None,
        f"Whether {who} got all messages of topic {said.topic} cannot be told: the filter ({cut}) leaves out what may "
        "answer that. Ask without it.",
        "the options of the command",
    )
