"""The harm, above all else on the page: what became of whose work, how much of it, and since when."""

from __future__ import annotations

from pipelines.formats import hosts, units, who
from pipelines.formats.plain import cut
from pipelines.report.elements import Html, tag
from pipelines.report.load import Row
from pipelines.report.payload import first_names
from pipelines.report.section import Builder
from pipelines.tables.verdicts import IMPACTS
from pipelines.tables.verdicts.impact import CANNOT_TELL
from pipelines.tables.verdicts.kinds import HARMS, NOTE, SEVERITIES

_NAMED = 2  # topics and groups that are named before they are counted
_LONGEST = 80  # characters of a name
_DONE_AFTER_ALL = "done after all"
_HARM = f"""
    select what, sum(messages)::bigint as messages, max(time_ns) as time_ns, list(distinct cause) as causes,
        {first_names("topic")}, {first_names("group", '"group"')},
        {first_names("client", "case when client_ip is not null then concat_ws(' ', client_ip, client_id) end")},
        min("from") as first_time, max(until) as last_time, bool_or(until is null) as goes_on,
        bool_and(healed is not null) as healed
    from {IMPACTS.name} where certainty is distinct from '{CANNOT_TELL}' group by what"""


def told(page: Builder) -> Html | None:
    """A line for each harm, the worst first; nothing where none was seen, and for an OUT that does not know."""
    if IMPACTS.name not in page.analysis.written.names():
        return None
    severities = {verdict["kind"]: verdict["severity"] for verdict in reversed(page.analysis.verdicts)}
    rows = {row["what"]: row for row in page.tables(_HARM)}
    lines = [_line(rows[what], severities) for what in HARMS if what in rows]
    return tag("ul", *lines, class_="harm", aria_label="What became of work") if lines else None


def _line(row: Row, severities: dict[str, str]) -> Html:
    severity = min((severities.get(cause, NOTE) for cause in row["causes"]), key=SEVERITIES.index)
    facts = (
        units.counted(row["messages"], "message") if row["messages"] else "",
        _named(row, "topic"),
        _named(row, "group") or _clients(row),
        f"up to {units.duration(row['time_ns'])}" if row["time_ns"] else "",
        _when(row),
        _DONE_AFTER_ALL if row["healed"] else "",
    )
    return tag(
        "li",
        tag("b", row["what"], class_=f"sev {severity}", title=HARMS[row["what"]]),
        tag("span", " · ".join(filter(None, facts))),
    )


def _named(row: Row, noun: str) -> str:
    names, total = filter(None, row[f"{noun}s"]), row[f"{noun}s_total"]
    if total > _NAMED:
        return units.counted(total, noun)
    short = [cut(name.removeprefix("persistent://"), _LONGEST) for name in names]
    return f"{noun if total == 1 else noun + 's'} {' and '.join(short)}" if short else ""


def _clients(row: Row) -> str:
    named = [client for client in row["clients"] if client]
    if row["clients_total"] > len(named):
        return units.counted(row["clients_total"], "client")
    return hosts.with_names(who.clients(who.of(named)))


def _when(row: Row) -> str:
    """`since 23:30:58, until the end of the capture`, `23:30:58 to 23:31:04`."""
    first, last = row["first_time"], row["last_time"]
    if first is None:
        return ""
    if row["goes_on"]:
        return f"since {first:%H:%M:%S}, until the end of the capture"
    return (
        f"at {first:%H:%M:%S}" if f"{first:%H:%M:%S}" == f"{last:%H:%M:%S}" else f"{first:%H:%M:%S} to {last:%H:%M:%S}"
    )
