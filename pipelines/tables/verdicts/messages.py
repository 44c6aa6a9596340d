"""What became of messages and of those who read them, as `audit` states it: lost, skipped, doubled, held.

The statements are made once (`pipelines/tables/audit`); these verdicts and the command show the same ones.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence

from pipelines.formats import units
from pipelines.tables.audit import audit
from pipelines.tables.audit.statement import DOUBLED, DOUBTFUL, HELD, LOST, OWN_DOING, SKIPPED, TWICE, Statement
from pipelines.tables.verdicts import impact, say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import CRITICAL, KINDS, NOTE, WARNING
from pipelines.tables.verdicts.thresholds import HELD_READERS_NS, LISTED
from pipelines.tables.verdicts.verdict import Row, Ruling

_KIND = {
    LOST: "messages_lost",
    SKIPPED: "messages_skipped",
    DOUBLED: "messages_doubled",
    TWICE: "messages_doubled",
    HELD: "transaction_held",
}
_DONE = {
    "messages_lost": "were lost",
    "messages_skipped": "were passed over",
    "messages_doubled": "came or stand more than once",
    "transaction_held": "waited for open transactions",
}
_CAME_AGAIN = "Let consumers commit or acknowledge what they processed before they leave, and tell doubles apart."

_DEDUPLICATE = (
    "Turn deduplication on for the topic or its namespace (brokerDeduplicationEnabled), and give producers names that "
    "they keep; or tell doubles apart."
)
_EXPIRED = (
    "See whether they expired (messageTTL), a backlog quota evicted them (consumer_backlog_eviction), a filter of the "
    "broker left them out, or somebody skipped them; if not, send them again. `brokerscope audit` says what that rests "
    "on."
)
_OF_PULSAR = {"messages_doubled": _DEDUPLICATE, "messages_lost": _EXPIRED}


@needs(SomeRows("positions", "what in ('committed', 'pending', 'fetch', 'last_stable') or protocol = 'iggy'"), SomeRows(
    "v_batches", "role = 'produce' and producer is null", least=2
))  # fmt: skip
def messages(capture: Capture) -> Iterator[Ruling]:
    """A verdict for each kind, protocol and severity."""
    alike: dict[tuple[str, str, str], list[Statement]] = defaultdict(list)
    for each in audit(capture, capture.cut, harm_only=True):
        again = each.protocol == "pulsar" and each.what == DOUBLED  # `redelivered` tells of these
        if each.what in _KIND and not again and (each.messages or each.what == HELD):
            alike[_KIND[each.what], each.protocol, _severity(each)].append(each)
    for (kind, protocol, severity), statements in alike.items():
        statements.sort(key=lambda each: -(each.messages or 0))
        rows = _rows(capture, statements, protocol)
        if rows is not None:
            yield Ruling(
                kind,
                _sentence(kind, statements),
                rows,
                " ".join(each.sentence for each in statements[1:]) or None,
                severity=severity,
                advice=_CAME_AGAIN
                if all(each.what == DOUBLED for each in statements)
                else _OF_PULSAR.get(kind)
                if protocol == "pulsar"
                else None,
                work=[_impact(kind, each, rows) for each in statements],
            )


def _severity(statement: Statement) -> str:
    """Of what a client did itself a note; of what stands wrong in a log, or is gone for its readers, critical."""
    if statement.what == HELD:
        return WARNING if (statement.time_ns or 0) >= HELD_READERS_NS else NOTE
    if statement.excuse == OWN_DOING:
        return NOTE
    return WARNING if statement.what == DOUBLED or statement.excuse == DOUBTFUL else CRITICAL


def _sentence(kind: str, statements: Sequence[Statement]) -> str:
    """The only statement; of several how many messages they are about, and the largest of them."""
    first = statements[0].sentence
    if len(statements) == 1:
        return first
    total = sum(each.messages or 0 for each in statements)
    where = say.named(sorted({each.topic for each in statements if each.topic}), "topic")
    return f"{units.counted(total, 'message')} of {where} {_DONE[kind]}. {first}"


def _rows(capture: Capture, statements: Sequence[Statement], protocol: str) -> Row | None:
    """The rows of records at which the statements begin, put together; None where none is found."""
    places = ", ".join(
        f"({say.literal(each.file)}, {each.packet})" for each in statements if each.file and each.packet is not None
    )
    if not places:
        return None
    of_protocol = f"protocol = {say.literal(protocol)}"
    for query in (
        f"select * from v_batches where {of_protocol} and (file, packet) in ({places})",
        f"""select * from v_calls where {of_protocol} and kind = 'call' and (
                (request_file, request_packet) in ({places}) or (response_file, response_packet) in ({places}))""",
        f"select * from v_calls where {of_protocol} and (file, packet) in ({places})",
    ):
        for row in capture.together(query):
            known = {
                "topics": {s.topic for s in statements if s.topic},
                "groups": {s.group for s in statements if s.group},
            }
            return row | {name: sorted(filter(None, {*row[name], *values}))[:LISTED] for name, values in known.items()}
    return None


def _impact(kind: str, statement: Statement, rows: Row) -> Row:
    ip, _, name = (statement.client or (rows["clients"] or [""])[0]).partition(" ")
    place = {"file": statement.file, "packet": statement.packet}
    same = [each for each in rows["evidence"] if (each["file"], each["packet"]) == (statement.file, statement.packet)]
    return impact.impact(
        str(KINDS[kind].harm),
        statement._asdict() | {"client_ip": ip or None, "client_id": name or None},
        **{"from": statement.time or rows["first_time"]},
        evidence=same or [place],
    )
