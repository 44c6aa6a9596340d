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
sent twice    the same messages at two offsets: a resend by a producer that is not idempotent, under another epoch, or
              to a topic that does not deduplicate
out of order  a batch that was sent again, and stands behind one that was sent after it
unconfirmed   produced with acks=0, or 1: what that risks
held          a transaction that kept readers of committed messages waiting: the last stable offset stood still

losses.py     of groups of Kafka and Iggy
passed_over.py  by a reset, in a new partition, by who set an offset, or as they had expired
overwritten.py  of a log that a later leader of Kafka, or a server of Iggy that stopped, cut off
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

from typing import NamedTuple

from pipelines.sql.views import SomeRows, Views
from pipelines.tables.audit import doubled, entries, losses, overwritten, passed_over, promises, resends
from pipelines.tables.audit.statement import LOST, ORDER, SKIPPED, UNKNOWN, Look, Statement

__all__ = ["LOST", "NOT_DELIVERED", "TABLES", "Statement", "audit"]

TABLES = ("exchanges", "batches", "errors", "connections", "positions", "events")
NOT_DELIVERED = (LOST, SKIPPED)
"""What statements say of messages that a broker acknowledged and a group never got."""


class _Look(NamedTuple):
    """Makes statements about records that have some of these rows."""

    statements: Look
    any_of: tuple[SomeRows, ...]
    is_harm: bool = True  # whether they may say what became of messages; else nobody asks for them but `audit`


_READ = SomeRows("batches", "role = 'consume' and protocol <> 'pulsar'")
_PULSAR_READ = SomeRows("batches", "role = 'consume' and protocol = 'pulsar' and \"group\" is not null")
_SENT = "role = 'produce' and protocol = 'kafka' and checksum_stored is not null and producer is null"
_REACHED = SomeRows("positions", "what in ('committed', 'pending') and protocol <> 'pulsar'")
_LOOKS = (
    _Look(losses.losses, (_READ, _REACHED)),
    _Look(losses.not_judged, (_READ, _REACHED), is_harm=False),
    _Look(passed_over.passed_over, passed_over.NEEDS),
    _Look(overwritten.overwritten, (overwritten.NEEDS,)),
    _Look(overwritten.cut_off, (SomeRows("positions", "protocol = 'iggy' and what = 'high_watermark'", least=2),)),
    _Look(entries.losses, (_PULSAR_READ, SomeRows("positions", "what = 'committed' and protocol = 'pulsar'"))),
    _Look(doubled.doubled, (_READ,)),
    _Look(doubled.dropped, (_READ,), is_harm=False),
    _Look(doubled.delivered_again, (_PULSAR_READ._replace(least=2),)),
    _Look(resends.sent_twice, (SomeRows("batches", _SENT, least=2),)),
    _Look(
        resends.sent_twice_to_pulsar, (SomeRows("batches", "protocol = 'pulsar' and position is not null", least=2),)
    ),
    _Look(resends.sent_twice_in_epochs, (SomeRows("batches", "format = 'magic 2' and producer is not null", least=2),)),
    _Look(resends.disorder, (SomeRows("batches", _SENT, least=2),), is_harm=False),
    _Look(promises.unconfirmed, (SomeRows("exchanges", "acks in (0, 1)"),), is_harm=False),
    _Look(promises.held, (SomeRows("positions", "what = 'last_stable'"),)),
)


VIEWS = {**losses.VIEWS, **passed_over.VIEWS, **doubled.VIEWS, **entries.VIEWS, **resends.VIEWS}
"""Queries that the looks read by name: tables of `Views`."""


def audit(views: Views, cut: str = "", *, harm_only: bool = False) -> list[Statement]:
    """All statements, losses first. views: over the record tables TABLES, with VIEWS.

    cut: what was asked for, where the tables have only its rows. Of what is not among them, nothing can be told.
    harm_only: without those that never say that messages were lost, skipped, doubled or held.
    """
    met = views.met([rows for look in _LOOKS for rows in look.any_of])
    looks = [look for look in _LOOKS if not met.isdisjoint(look.any_of) and (look.is_harm or not harm_only)]
    found = [statement for look in looks for statement in look.statements(views.rows)]
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
