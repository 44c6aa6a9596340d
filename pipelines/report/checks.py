"""What may be wrong, and what may be well: each check looks at one thing and gives a sentence, or nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from pipelines.formats import statuses, units
from pipelines.report.elements import shown
from pipelines.report.load import Analysis, Row
from pipelines.report.section import Builder
from pipelines.report.sections.errors import with_expected
from pipelines.report.sections.forensics import PATTERNS, PLACES
from pipelines.report.sections.groups import rebalances
from pipelines.report.sections.slowest import slowest
from pipelines.tables import TABLES

# from here on, something is worth a sentence
RETRANSMITTED = 0.01  # share of packets
UNDERSTOOD = 0.99  # share of the bytes of known protocols
UNANSWERED = 0.001  # share of requests
SLOW_NS = 500_000_000  # the longest request
TAIL = 20  # how many times slower than the median p99 is
TAIL_NS = 20_000_000  # and at least
ENOUGH = 100  # requests behind a statement about a tail, or about one broker
UNEVEN = 3.0  # how many times slower one broker is than the others together


class Sentence(NamedTuple):
    """One of the box's sentences."""

    rank: int  # the worst first
    state: str  # bad, warn or good
    what: str  # the number, in a few words
    more: str  # the rest of the sentence
    link: str  # id of the section with the evidence


Check = Callable[[Builder], Iterator[Sentence]]

# over all rows of a table, which the page does not load
_BAD_TOPICS = "select distinct topic from integrity where bad > 0 and topic is not null order by topic"
_OLD_VERSIONS = """
    select count(distinct (client_ip, client_id)) as clients,
        coalesce(list(distinct api order by api) filter (where api is not null), []) as apis
    from clients where len(removed) > 0"""
_COVERED = f"""
    select coalesce(sum(framed_bytes), 0)::double as framed,
        framed + coalesce(sum(skipped_bytes), 0)::double + coalesce(sum(pending_bytes), 0)::double as whole,
        count(*) filter (where coverage < {UNDERSTOOD}) as poor
    from health where coverage is not null"""


def _most(column: str) -> str:
    """The connection of which a column of `health` is largest."""
    return f"select * from health order by coalesce({column}, 0) desc, {TABLES['health'].ordering} limit 1"


# --- what may be wrong -----------------------------------------------------------------------------------------------


def _checksums(page: Builder) -> Iterator[Sentence]:
    bad = page.analysis.sum("integrity", "bad")
    if not bad:
        return
    verified = bad + page.analysis.sum("integrity", "ok")
    topics = [row["topic"] for row in page.tables(_BAD_TOPICS)]
    first = next((row for row in page.analysis["corrupt"] if row.get("pattern")), None)
    how = ""
    if first:
        pattern = str(PATTERNS.get(first["pattern"], shown(first["pattern"]))).lower()
        where = "" if first["broke"] == "undecided" else PLACES.get(first["broke"], "")
        how = f"; the first: {pattern}" + (f", {where}" if where else "")
    yield Sentence(
        0, "bad", f"{_many(bad, 'checksum does', 'checksums do')} not hold,",
        f"of {units.count(verified)} verified{_in(topics, 'topic')}{how}.", "forensics",
    )  # fmt: skip


def _errors(page: Builder) -> Iterator[Sentence]:
    names: dict[tuple[str, str], list[Row]] = {}
    for row in with_expected(page.analysis):
        if not row["expected"]:
            names.setdefault((row["protocol"], row["name"] or f"error {row['code']}"), []).append(row)
    ranked = sorted(names.items(), key=lambda item: -_sum(item[1], "count"))
    for rank, ((protocol, name), rows) in enumerate(ranked[:2]):
        apis, topics, clients = (_names(_flat(rows, column)) for column in ("api", "topics", "clients"))
        who = f" to {shown(clients[0])}" if len(clients) == 1 else f" to {len(clients)} clients"
        yield Sentence(
            2 + rank, "warn", f"{shown(name)} {_times(_sum(rows, 'count'))},",
            f"in answers of {protocol} {_listed(apis)}"
            f"{who}{_in(topics, 'topic')}.", "errors",
        )  # fmt: skip
    if len(ranked) > 2:
        rest = sum(_sum(rows, "count") for _, rows in ranked[2:])
        yield Sentence(7, "warn", f"{units.count(rest)} more errors", f"of {len(ranked) - 2} other kinds.", "errors")


def _lost(page: Builder) -> Iterator[Sentence]:
    lost, captured = (page.analysis.sum("health", c) for c in ("gap_bytes", "captured_bytes"))
    if not lost:
        return
    holed = page.tables("select count(*) as n from health where gaps > 0")[0]["n"]
    state = "bad" if lost > captured / 100 else "warn"
    yield Sentence(
        1 if state == "bad" else 5, state, f"{units.size(lost)} are missing from the capture,",
        f"{units.share(lost / (lost + captured))} of the streams, on {_many(holed, 'connection', 'connections')}: "
        "what was in them is in no table.", "health",
    )  # fmt: skip


def _retransmitted(page: Builder) -> Iterator[Sentence]:
    resent, packets = (page.analysis.sum("health", c) for c in ("retransmissions", "packets"))
    if not packets or resent / packets < RETRANSMITTED:
        return
    (worst,) = page.tables(_most("retransmissions"))
    waited = page.tables("select coalesce(sum(retransmitted), 0) as n from latency where not long_poll")[0]["n"]
    held_up = f"; {_many(waited, 'request', 'requests')} waited for them" if waited else ""
    yield Sentence(
        4, "warn", f"{units.count(resent)} retransmissions,",
        f"{units.share(resent / packets)} of packets; most on {worst['connection']} "
        f"({units.count(worst['retransmissions'])}){held_up}.", "health",
    )  # fmt: skip


def _windows(page: Builder) -> Iterator[Sentence]:
    full = page.tables("select count(*) as n from health where zero_windows > 0")[0]["n"]
    if full:
        (worst,) = page.tables(_most("zero_windows"))
        yield Sentence(
            6, "warn", f"{_many(full, 'connection', 'connections')} stood still",
            f"because a receiver did not read (window of zero); most often {worst['connection']}, "
            f"{_times(worst['zero_windows'])}.", "health",
        )  # fmt: skip


def _unanswered(page: Builder) -> Iterator[Sentence]:
    answered, silent = page.analysis.sum("activity", "count"), page.analysis.sum("activity", "unanswered")
    if not silent or silent / (answered + silent) < UNANSWERED:
        return
    rows = page.counted("""
        select protocol, api, broker from request_bins join request_keys using (key) where unanswered > 0
        group by protocol, api, broker order by sum(unanswered) desc, api, broker, protocol limit 1""")
    most = f"; most often {rows[0]['protocol']} {rows[0]['api']} to {rows[0]['broker']}" if rows else ""
    yield Sentence(
        4, "warn", f"{_many(silent, 'request has', 'requests have')} no answer",
        f"in the capture, of {units.count(answered + silent)}{most}.", "events",
    )  # fmt: skip


def _slow(page: Builder) -> Iterator[Sentence]:
    rows = [row for row in _by_api(page.analysis) if (row["timed"] or row["count"]) >= ENOUGH and row["total_p50_ns"]]
    tails = [r for r in rows if r["total_p99_ns"] >= max(TAIL_NS, TAIL * r["total_p50_ns"])]
    if tails:
        worst = max(tails, key=lambda row: row["total_p99_ns"])
        yield Sentence(
            3, "warn",
            f"One {worst['protocol']} {worst['api']} in a hundred takes {_long(worst['total_p99_ns'])} or more,",
            f"{worst['total_p99_ns'] / worst['total_p50_ns']:.0f} times the median of {_long(worst['total_p50_ns'])}.",
            "latency",
        )  # fmt: skip
    for one in slowest(page)[:1]:
        if one["total_ns"] < SLOW_NS:
            break
        again = f", and {statuses.BYTES_SENT_AGAIN}" if one["retransmitted"] else ""
        waited = f", {units.share(one['waiting'])} of it waiting for" if one["waiting"] is not None else " at"
        yield Sentence(
            3, "warn", f"The slowest request took {_long(one['total_ns'])}:",
            f"{one['protocol']} {one['api']}{waited} {one['broker']}{again}.", "slowest",
        )  # fmt: skip


def _uneven(page: Builder) -> Iterator[Sentence]:
    """A broker that is slower than the others at the same API."""
    rows = page.counted(f"""
        with each as (
            select site, protocol, api, broker, sum(waits) as n, sum(service_ns)::double as spent,
                   sum(service_ns)::double / sum(waits) as own
            from request_bins join request_keys using (key) where waits > 0 group by site, protocol, api, broker),
        compared as (
            select *, (sum(spent) over w - spent) / nullif(sum(n) over w - n, 0) as others,
                   sum(n) over w - n as compared from each window w as (partition by site, protocol, api))
        select * from compared where n >= {ENOUGH} and compared >= {ENOUGH} and own >= {UNEVEN} * others
        order by (own - others) * n desc, broker, api limit 1""")
    for row in rows:
        yield Sentence(
            3, "warn", f"Broker {row['broker']} is {row['own'] / row['others']:.1f} times slower",
            f"than the others at {row['protocol']} {row['api']}: {_long(row['own'])} against {_long(row['others'])} "
            f"on average, {units.count(row['n'])} requests.", "brokers",
        )  # fmt: skip


def _rebalances(page: Builder) -> Iterator[Sentence]:
    rebalances(page)
    rows = page.rows("""
        select "group", count(*) as n, sum(duration_ns) as spent from rebalances
        group by all having n > 1 order by spent desc nulls last, n desc, "group" limit 1""")
    for row in rows:
        spent = f"{_long(row['spent'])} in all" if row["spent"] is not None else "for how long is not in the capture"
        yield Sentence(
            5, "warn", f"Group {shown(row['group'])} rebalanced {_times(row['n'])},",
            f"{spent}: its members did not consume meanwhile.", "groups",
        )  # fmt: skip


def _throttled(page: Builder) -> Iterator[Sentence]:
    rows = page.rows("select count(*) as n, max(throttle_ms) as longest from exchanges where throttle_ms > 0")
    if rows and rows[0]["n"]:
        yield Sentence(
            5, "warn", f"{_many(rows[0]['n'], 'request was', 'requests were')} throttled",
            f"by a quota of the broker, up to {_long(rows[0]['longest'] * 1_000_000)}.", "events",
        )  # fmt: skip


def _removed(page: Builder) -> Iterator[Sentence]:
    (old,) = page.tables(_OLD_VERSIONS)
    if old["clients"]:
        apis = old["apis"]
        yield Sentence(
            8, "warn", f"{_many(old['clients'], 'client uses', 'clients use')} versions that Kafka 4.0 removed,",
            f"of {_listed(apis)}: update before the brokers.", "clients",
        )  # fmt: skip


def _not_understood(page: Builder) -> Iterator[Sentence]:
    (known,) = page.tables(_COVERED)
    framed, whole, poor = known["framed"], known["whole"], known["poor"]
    if whole and framed / whole < UNDERSTOOD:
        yield Sentence(
            4, "warn", f"{units.share(framed / whole)} of the bytes were understood:",
            f"on {_many(poor, 'connection', 'connections')} some belong to no whole frame.", "health",
        )  # fmt: skip


def _findings(page: Builder) -> Iterator[Sentence]:
    """Findings of severity error that no other check is about."""
    rows = [r for r in page.analysis["findings"] if r["severity"] == "error" and r["kind"] != "bad_checksum"]
    for row in sorted(rows, key=lambda r: -r["count"])[:2]:
        yield Sentence(
            2, "bad", f"{row['kind'].replace('_', ' ').capitalize()}, {_times(row['count'])}:",
            f"{shown(row['message'] or '')}".rstrip(".") + ".", "findings",
        )  # fmt: skip


WRONG: tuple[Check, ...] = (
    _checksums, _errors, _findings, _lost, _slow, _uneven, _retransmitted, _unanswered, _not_understood, _rebalances,
    _throttled, _windows, _removed,
)  # fmt: skip


# --- what was looked at, and is well ---------------------------------------------------------------------------------


def _checksums_hold(page: Builder) -> Iterator[Sentence]:
    good = page.analysis.sum("integrity", "ok")
    if good and not page.analysis.sum("integrity", "bad"):
        yield Sentence(9, "good", f"All {units.count(good)} checksums hold", "that could be verified.", "integrity")


def _no_errors(page: Builder) -> Iterator[Sentence]:
    calls = page.analysis.sum("activity", "count")
    if calls and not any(not row["expected"] for row in with_expected(page.analysis)):
        yield Sentence(9, "good", "No errors", f"in {units.count(calls)} answers but expected ones.", "errors")


def _nothing_lost(page: Builder) -> Iterator[Sentence]:
    captured = page.analysis.sum("health", "captured_bytes")
    if captured and not page.analysis.sum("health", "gap_bytes"):
        yield Sentence(9, "good", "Nothing is missing", f"from {units.size(captured)} of streams.", "health")


def _quick(page: Builder) -> Iterator[Sentence]:
    rows = [row for row in _by_api(page.analysis) if row["total_max_ns"] is not None]
    if rows:
        worst = max(rows, key=lambda row: row["total_max_ns"])
        yield Sentence(
            9, "good", f"No request took longer than {_long(worst['total_max_ns'])};",
            f"the longest was {worst['protocol']} {worst['api']}.", "slowest",
        )  # fmt: skip


WELL: tuple[Check, ...] = (_checksums_hold, _no_errors, _nothing_lost, _quick)


# --- words -----------------------------------------------------------------------------------------------------------


def _by_api(analysis: Analysis) -> list[Row]:
    return [row for row in analysis["latency"] if not row["long_poll"]]


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def _flat(rows: Iterable[Row], column: str) -> Iterator[Any]:
    for row in rows:
        yield from row[column] if isinstance(row[column], list) else [row[column]]


def _names(values: Iterable[Any]) -> list[str]:
    return sorted({str(value) for value in values if value is not None})


def _listed(names: list[str]) -> str:
    """`A`, `A and B`, `A, B and 3 others`."""
    rest = len(names) - 2
    if rest > 0:
        return f"{', '.join(names[:2])} and {units.count(rest)} other{'s' if rest > 1 else ''}"
    return " and ".join(names)


def _in(names: list[str], what: str) -> str:
    if not names:
        return ""
    return f", {what} {shown(names[0])}" if len(names) == 1 else f", in {len(names)} {what}s"


def _many(count: int, one: str, more: str) -> str:
    return f"{units.count(count)} {one if count == 1 else more}"


def _times(count: int) -> str:
    return {1: "once", 2: "twice"}.get(count, f"{units.count(count)} times")


def _long(ns: float) -> str:
    return units.duration(ns)
