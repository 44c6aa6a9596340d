"""One verdict, and how a check asks the records for the rows that it is about.

A check is a query over the views of `capture.py` and a sentence. Every view has the same columns of who, when and
where, so `together` makes of any rows what a verdict says of them: their number, cost, time, clients, servers, topics,
groups, and the rows themselves as evidence.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.formats import who
from pipelines.formats.plain import cut
from pipelines.sql.database import literal
from pipelines.tables.transactions import SCHEMA as TRANSACTIONS
from pipelines.tables.verdicts import IMPACT_SCHEMA, SCHEMA
from pipelines.tables.verdicts.impact import of_counted
from pipelines.tables.verdicts.kinds import KINDS, NOTE
from pipelines.tables.verdicts.thresholds import EVIDENCE, LISTED, LONGEST_TEXT, OF_A_CHECK

Row = dict[str, Any]


class Link(NamedTuple):
    """One cause or effect in a chain."""

    time: datetime
    text: str
    file: str | None = None
    packet: int | None = None

    @classmethod
    def of(cls, row: Row, text: str) -> Link:
        """At the time and the packet of a row."""
        return cls(row["time"], text, row["file"], row["packet"])


class Ruling(NamedTuple):
    """What is wrong, whom it concerns and what it costs."""

    kind: str
    sentence: str
    rows: Row
    """What `together` says of the rows that are counted."""
    detail: str | None = None
    severity: str | None = None
    """None: that of the kind."""
    advice: str | None = None
    """None: that of the kind."""
    chain: Sequence[Link] = ()
    work: Sequence[Row] | None = None
    """Rows of `impact.impact`, where the check knows the pieces of work; None: those of the rows that are counted."""

    @property
    def level(self) -> str:
        """Its severity."""
        return self.severity or KINDS[self.kind].severity

    @property
    def harm(self) -> str | None:
        """What it did to somebody's work; None for a note, and for what is only a risk."""
        return None if self.level == NOTE else KINDS[self.kind].harm

    def impacts(self) -> list[Row]:
        """Its rows of the table `impacts`."""
        if self.harm is None:
            return []
        rows = of_counted(self.harm, self.rows) if self.work is None else self.work
        return [row | {"cause": self.kind} for row in rows]

    def row(self) -> Row:
        """All columns but `rank`."""
        known = KINDS[self.kind]
        return {
            **{name: value for name, value in self.rows.items() if name in SCHEMA.names},
            "severity": self.level,
            "kind": self.kind,
            "sentence": cut(self.sentence, LONGEST_TEXT),
            "detail": self.detail and cut(self.detail, LONGEST_TEXT),
            "advice": self.advice or known.advice,
            "clients": self.rows["clients"][:LISTED],
            "addresses": who.addresses(self.rows["clients"])[:LISTED],
            "chain": [link._asdict() | {"text": cut(link.text, LONGEST_TEXT)} for link in self.chain],
        }


class Judged(NamedTuple):
    """What is wrong, what became of the work, and the transactions that it was part of."""

    verdicts: pa.Table
    impacts: pa.Table
    """Each is of one of the verdicts, by its kind in `cause`."""
    transactions: pa.Table

    @classmethod
    def empty(cls) -> Judged:
        """Of no records."""
        return cls(SCHEMA.empty_table(), IMPACT_SCHEMA.empty_table(), TRANSACTIONS.empty_table())


COST_NS = "saturated(sum(cost_ns))"
"""The time that rows cost, as an aggregate, where a check has no other."""


def together(rows: str, by: Sequence[str] = (), more: str = "", cost_ns: str = COST_NS) -> str:
    """A SELECT of one row for each group of rows of a view of `capture.py`, with those columns of a verdict
    that its rows tell.

    rows: a SELECT; by: columns that make a group; more: aggregates of the check's own, for the SELECT list; cost_ns:
    the aggregate of that name.
    """
    keys = "".join(f"{name}, " for name in by)
    parts = f"partition by {', '.join(by)} " if by else ""
    group = f"group by {', '.join(by)}" if by else "having count(*) > 0"
    protocol = "" if "protocol" in by else "max(protocol) as protocol, "
    share = f"greatest(1, {OF_A_CHECK} // greatest(1, count(*)))"
    most = f"(select least({EVIDENCE}, {share}) from in_groups where row_in_group = 1)" if by else EVIDENCE
    return f"""
        with in_groups as materialized (
            select *, row_number() over (  -- which goes to disk: a list of all rows would have to fit in memory
                {parts}order by time, file, packet, stream_offset, exchange_id) as row_in_group
            from ({rows})
        )
        select {keys}{protocol}count(*) as count, any_value(counted) as counted, {cost_ns} as cost_ns,
            min(time) as first_time, max(until) as last_time,
            {_listed("client", EVIDENCE)} as clients, {_listed("server")} as servers,
            number_of(client_name(client)) as client_ids, number_of(client_address(client)) as client_hosts,
            {_listed('"group"')} as groups,
            list_sort(list_distinct(flatten(names_of(topics))))[:{LISTED}] as topics,
            list({{'file': file, 'packet': packet, 'exchange_id': exchange_id, 'stream_offset': stream_offset,
                'client': client, 'server': server, 'topic': topics[1], 'group': "group",
                'from_us': epoch_us(time), 'until_us': epoch_us(until)}}
                order by row_in_group) filter (row_in_group <= {most}) as evidence{more and f", {more}"}
        from in_groups {group}"""


def first_of(*columns: str) -> str:
    """An aggregate `first`, for `more` of `together`: these columns of the row that was seen first."""
    named = ", ".join(f"'{column}': {column}" for column in columns)
    return f"arg_min({{{named}}}, row(time, file, packet)) as first"


def sql_list(values: Sequence[str | int]) -> str:
    """Values as the right side of IN; there must be one at least."""
    return f"({', '.join(str(value) if isinstance(value, int) else literal(value) for value in values)})"


def _listed(column: str, most: int = LISTED) -> str:
    return f"names_of(nullif({column}, ''))[:{most}]"
