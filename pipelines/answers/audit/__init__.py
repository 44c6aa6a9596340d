"""Was a message lost, doubled or put out of order? What records prove of it, and what they cannot tell.

lost          acknowledged by the broker, and never delivered to a group that went past: batches before and behind it
              were delivered to its members, and it committed a later offset. Or acknowledged, and gone from the log: a
              later leader gave the offsets to other messages
delivered     what was checked so, and found
skipped       acknowledged, and passed over by a group that never asked for it
cannot tell   why nothing can be said of a topic and a group
doubled       delivered more than once to members of a group, with what lies between the deliveries
sent twice    the same messages at two offsets: a resend by a producer that is not idempotent, or under another epoch
out of order  a batch that was sent again, and stands behind one that was sent after it
unconfirmed   produced with acks=0, or 1: what that risks
held          a transaction that kept readers of committed messages waiting: the last stable offset stood still

losses.py     of groups of Kafka and Iggy
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

from pipelines.answers.audit import doubled, entries, losses, overwritten, promises, resends
from pipelines.answers.audit.statement import LOST, ORDER, Look, Statement
from pipelines.answers.records import Relations, Row, database_of

__all__ = ["BODIES_OF", "LOST", "TABLES", "Statement", "audit"]

TABLES = ("exchanges", "batches", "connections", "positions")
BODIES_OF = (*losses.CONFIGURED_BY, *entries.TYPED_BY)
"""Whose bodies are read: configurations of topics, types of subscriptions."""

_LOOKS: tuple[Look, ...] = (
    losses.losses,
    overwritten.overwritten,
    entries.losses,
    doubled.doubled,
    resends.sent_twice,
    resends.sent_twice_in_epochs,
    resends.disorder,
    promises.unconfirmed,
    promises.held,
)


def audit(tables: Relations) -> list[Statement]:
    """All statements, losses first. tables: TABLES, each exchange once, with the bodies of BODIES_OF where they are."""
    with database_of(tables) as connection:

        def ask(query: str) -> list[Row]:
            rows: list[Row] = connection.sql(query).to_arrow_table().to_pylist()
            return rows

        bodies = "request" in {row["column_name"] for row in ask("DESCRIBE exchanges")}
        for name, query in {**losses.VIEWS, **entries.views(bodies)}.items():
            connection.execute(f"CREATE TEMP TABLE {name} AS {query}")
        found = [statement for look in _LOOKS for statement in look(ask)]
    return sorted(
        found,
        key=lambda each: (ORDER.index(each.what), each.protocol, each.topic or "", each.group or "", each.sentence),
    )
