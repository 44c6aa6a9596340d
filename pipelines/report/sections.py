"""The page: what costs most first, then each thing in turn, with the way back to the packet."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from pipelines.formats import cells, units
from pipelines.report import cases, charts
from pipelines.report.charts import Axis, Series
from pipelines.report.elements import Html, join, table, tag
from pipelines.report.load import CASES_FILE, TABLE_FOLDER, Analysis, Row
from pipelines.tables import TABLES
from pipelines.tables.integrity import VERDICTS
from pipelines.tables.table import Column

HERE = Path(__file__).parent
SHOWN = 100  # rows of a table on the page
RANKED = 15  # APIs in the ranking
SPREAD = 9  # distributions shown
CASES = 30  # bad checksums shown
TOPICS = 7  # topics with a colour of their own

COLOURS = {"kafka": "var(--kafka)", "pulsar": "var(--pulsar)", "iggy": "var(--iggy)"}
VERDICT_COLOURS = {"ok": "var(--good)", "bad": "var(--bad)", "unverifiable": "var(--warn)", "absent": "var(--idle)"}


def page(analysis: Analysis) -> str:
    """The whole page."""
    parts = [section(analysis) for section in SECTIONS]
    shown = [part for part in parts if part]
    title = f"brokerscope: {_span_text(analysis) or 'no packets'}"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", title),
        tag("style", Html((HERE / "page.css").read_text(encoding="utf-8"))),
    )
    script = tag("script", Html((HERE / "page.js").read_text(encoding="utf-8")))
    body = tag("body", _top(analysis), tag("main", *shown), _foot(analysis), script)
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _section(name: str, title: str, lead: str, *inside: Any) -> Html:
    content = join(inside)
    if not content:
        content = tag("p", "Nothing of this in these captures.", class_="empty")
    head = tag("header", tag("h2", title), tag("p", lead) if lead else None)
    return tag("section", head, content, id=name)


# --- the top ---------------------------------------------------------------------------------------------------------

NAVIGATION = (
    ("cost", "Cost"),
    ("latency", "Latency"),
    ("time", "Along time"),
    ("errors", "Errors"),
    ("throughput", "Throughput"),
    ("integrity", "Integrity"),
    ("forensics", "Forensics"),
    ("delivery", "Delivery"),
    ("clients", "Clients"),
    ("health", "Health"),
    ("findings", "Findings"),
)


def _top(analysis: Analysis) -> Html:
    links = (tag("a", title, href=f"#{name}") for name, title in NAVIGATION)
    toggle = tag("button", "◐", id="theme", type="button", title="Light or dark")
    bar = tag("nav", tag("b", "brokerscope"), *links, toggle)
    return join([bar, tag("div", _summary(analysis), class_="top")])


def _summary(analysis: Analysis) -> Html:
    # requests are counted along time: by topic, one that names two would count twice
    calls, failed, unanswered = (analysis.sum("activity", c) for c in ("count", "errors", "unanswered"))
    bad, good = (analysis.sum("integrity", c) for c in ("bad", "ok"))
    lost, captured = (analysis.sum("health", c) for c in ("gap_bytes", "captured_bytes"))
    packets, resent = (analysis.sum("health", c) for c in ("packets", "retransmissions"))
    framed, skipped, pending = (analysis.sum("health", f"{c}_bytes") for c in ("framed", "skipped", "pending"))
    health, verified, whole = analysis["health"], good + bad, framed + skipped + pending
    moved = {role: sum(r["messages"] for r in analysis["throughput"] if r["role"] == role) for role in ROLES}
    worst = sum(r["count"] for r in analysis["findings"] if r["severity"] == "error")
    tiles = (
        _tile("Connections", units.count(analysis.rows.get("health", len(health))), _protocols(health)),
        _tile("Requests", units.count(calls), f"{units.count(unanswered)} unanswered"),
        _tile(
            "Errors",
            units.count(failed),
            f"{units.share(failed / calls)} of answers" if calls else "",
            _warn(failed),
        ),
        _tile("Messages", units.count(moved["produce"]), f"produced; {units.count(moved['consume'])} consumed"),
        _tile(
            "Bad checksums",
            units.count(bad),
            f"of {units.count(verified)} verified" if verified else "none to verify",
            "bad" if bad else "good" if verified else "",
        ),
        _tile("Understood", units.share(framed / whole) if whole else "–", f"of {units.size(captured)} captured"),
        _tile(
            "Lost",
            units.size(lost),
            f"{units.count(resent)} retransmissions in {units.count(packets)} packets",
            _warn(lost),
        ),
        _tile("Findings", units.count(worst), "of severity error", "bad" if worst else "good"),
    )
    about = analysis.about
    captures = about.get("files", [])
    where = f"{len(captures)} capture{'s' if len(captures) != 1 else ''}" if captures else ""
    span = _span_text(analysis)
    problems = [tag("li", problem) for problem in about.get("problems", [])]
    return join(
        [
            tag("h1", "What the brokers did"),
            tag("p", " · ".join(part for part in (where, span) if part), class_="sub"),
            tag("ul", *problems, class_="problems") if problems else None,
            tag("div", *tiles, class_="tiles"),
        ]
    )


def _tile(name: str, value: str, note: str, state: Any = "") -> Html:
    return tag(
        "div", tag("span", name), tag("b", value), tag("small", note), class_=f"tile {state}" if state else "tile"
    )


def _protocols(health: Sequence[Row]) -> str:
    counts: dict[str, int] = {}
    for row in health:
        counts[row["protocol"] or "other"] = counts.get(row["protocol"] or "other", 0) + 1
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items(), key=lambda i: -i[1]))


def _span_text(analysis: Analysis) -> str:
    starts = [r["start_time"] for r in analysis["health"] if r["start_time"]]
    ends = [r["start_time"].timestamp() + (r["duration_ns"] or 0) / 1e9 for r in analysis["health"] if r["start_time"]]
    if not starts:
        return ""
    first = min(starts)
    return f"{first:%Y-%m-%d %H:%M:%S} UTC, {units.duration((max(ends) - first.timestamp()) * 1e9)}"


# --- what costs most -------------------------------------------------------------------------------------------------


def cost(analysis: Analysis) -> Html:
    """APIs by the time spent in them, pushes of long polls apart."""
    rows = _merged(r for r in analysis["latency"] if not r["long_poll"])
    polls = _merged(r for r in analysis["latency"] if r["long_poll"])
    whole = _sum(rows, "total_sum_ns")
    ranked = sorted(rows, key=lambda r: -(r["total_sum_ns"] or 0))[:RANKED]
    lead = (
        "Time from the first byte of a request to the last byte of its answer, summed per API: where clients waited. "
        "Requests that asked the broker to wait (long polls) stand apart below."
    )
    columns = ("", "Share of time", "", "Time", "Requests", "p50", "p99", "Longest", "Errors")
    head = tag("tr", *(tag("th", c, class_="n" if i > 2 else None, scope="col") for i, c in enumerate(columns)))
    body = []
    for row in ranked:
        share = (row["total_sum_ns"] or 0) / whole if whole else 0
        colour = COLOURS.get(row["protocol"], "var(--idle)")
        body.append(
            tag(
                "tr",
                tag("td", _badge(row["protocol"]), " ", tag("b", row["api"] or "?")),
                tag("td", charts.share_bar(share, colour), class_="w"),
                tag("td", units.share(share), class_="n"),
                *(_n(row[c], units.duration) for c in ("total_sum_ns",)),
                _n(row["count"], units.count),
                *(_n(row[c], units.duration) for c in ("total_p50_ns", "total_p99_ns", "total_max_ns")),
                _n(row["errors"], units.count, "warn" if row["errors"] else ""),
            )
        )
    ranking = tag("div", tag("table", tag("thead", head), tag("tbody", *body), class_="rank"), class_="scroll")
    held = None
    if polls:
        wanted = [c for c in _columns("latency") if c.name != "long_poll"]
        held = join([tag("h3", "Long polls"), table(wanted, sorted(polls, key=lambda r: -r["count"]))])
    return _section("cost", "What costs most", lead, ranking if ranked else None, held)


def _merged(rows: Iterable[Row]) -> list[Row]:
    """Rows of `--by` put back together per API: counts add up, of percentiles the largest stands for all."""
    out: dict[tuple[Any, Any], Row] = {}
    for row in rows:
        key = (row["protocol"], row["api"])
        if key not in out:
            out[key] = dict(row)
            continue
        one = out[key]
        for name, value in row.items():
            if not isinstance(value, int) or isinstance(value, bool):
                continue
            adds = name in ("count", "unanswered", "errors", "total_sum_ns", "request_bytes", "response_bytes")
            one[name] = value + (one[name] or 0) if adds else max(value, one[name] or 0)
    return list(out.values())


def latency(analysis: Analysis) -> Html:
    """The table, and how durations are spread."""
    spread: dict[tuple[str, str], list[tuple[int, int, int]]] = {}
    for row in analysis["distribution"]:
        if not row["long_poll"]:
            spread.setdefault((row["protocol"], row["api"]), []).append((row["from_ns"], row["to_ns"], row["count"]))
    rows = {(r["protocol"], r["api"]): r for r in _merged(r for r in analysis["latency"] if not r["long_poll"])}
    first = sorted(spread, key=lambda key: -(rows.get(key, {}).get("total_sum_ns") or 0))[:SPREAD]
    cards = []
    for protocol, api in first:
        row = rows.get((protocol, api), {})
        marks = [("p50", row.get("total_p50_ns")), ("p99", row.get("total_p99_ns"))]
        chart = charts.histogram(sorted(spread[protocol, api]), marks, COLOURS.get(protocol, "var(--idle)"))
        note = f"{units.count(row.get('count'))} requests, median {units.duration(row.get('total_p50_ns'))}"
        head = tag("figcaption", _badge(protocol), " ", tag("b", api or "?"), tag("small", note))
        cards.append(tag("figure", head, chart))
    lead = (
        "How long requests took, on logarithmic scales. Total: from the first byte of the request to the last byte "
        "of the answer; wait: from the last byte of the request to the first byte of the answer."
    )
    shown = _ranked(analysis, "latency")
    return _section(
        "latency",
        "Latency",
        lead,
        tag("div", *cards, class_="cards") if cards else None,
        _table(analysis, "latency", shown),
    )


# --- along time ------------------------------------------------------------------------------------------------------


def along_time(analysis: Analysis) -> Html:
    """Requests, errors and durations per bucket."""
    rows = analysis["activity"]
    if not rows:
        return _section("time", "Along time", "")
    axis = Axis([r["bucket"] for r in rows], rows[0]["bucket_s"])
    names = [name for name in COLOURS if any(r["protocol"] == name for r in rows)]

    def series(column: str, colour: Callable[[str], str], per_second: bool, worst: bool = False) -> list[Series]:
        out = []
        for name in names:
            values: list[float | None] = [None] * axis.columns
            for row in rows:
                if row["protocol"] == name and row[column] is not None:
                    at = axis.column(row["bucket"])
                    value = row[column] / axis.seconds if per_second else row[column]
                    values[at] = max(values[at] or 0, value) if worst else (values[at] or 0) + value
            out.append(Series(name, colour(name), values))
        return out

    requests = series("count", COLOURS.__getitem__, True)
    errors = series("errors", COLOURS.__getitem__, False)
    slowest = series("total_p99_ns", COLOURS.__getitem__, False, worst=True)
    width = units.duration(axis.seconds * 1e9)
    any_errors = any(v for s in errors for v in s.values)
    return _section(
        "time",
        "Along time",
        f"One column is {width}; idle stretches are left out. Long polls are not among the durations.",
        charts.legend(requests),
        tag("h3", "Requests per second"),
        charts.bars(axis, requests, _per_second, label="requests per second"),
        tag("h3", "p99 of the duration"),
        charts.lines(axis, slowest, units.duration, label="99th percentile of the duration"),
        tag("h3", "Errors") if any_errors else None,
        charts.bars(axis, errors, units.count, height=110, label="errors") if any_errors else None,
    )


def errors(analysis: Analysis) -> Html:
    """What brokers refused."""
    lead = "Error codes in answers, most frequent first; each with the packet of the first one."
    return _section("errors", "Errors", lead, _table(analysis, "errors", _ranked(analysis, "errors")))


ROLES = ("produce", "consume", "replicate")


def throughput(analysis: Analysis) -> Html:
    """Bytes along time by topic, and totals per topic."""
    rows = analysis["throughput"]
    if not rows:
        return _section("throughput", "Throughput", "")
    axis = Axis([r["bucket"] for r in rows], rows[0]["bucket_s"])
    totals: dict[tuple[str, Any], float] = {}
    for row in rows:
        key = (row["protocol"], row["topic"])
        totals[key] = totals.get(key, 0) + row["stored_bytes"]
    largest = sorted(totals, key=lambda key: (-totals[key], str(key)))[:TOPICS]
    parts: list[Any] = []
    for role in ROLES:
        mine = [r for r in rows if r["role"] == role]
        if not mine:
            continue
        values: dict[Any, list[float | None]] = {}
        for row in mine:
            key = (row["protocol"], row["topic"])
            line = values.setdefault(key if key in largest else None, [None] * axis.columns)
            at = axis.column(row["bucket"])
            line[at] = (line[at] or 0) + row["stored_bytes"] / axis.seconds
        series = [
            Series(_topic(key[1]), f"var(--c{i + 1})", values[key]) for i, key in enumerate(largest) if key in values
        ]
        if None in values:
            series.append(Series("other topics", "var(--idle)", values[None]))
        parts += [
            tag("h3", f"{role.capitalize()}: bytes per second on the wire"),
            charts.bars(axis, series, _bytes_per_second, label=f"{role}d bytes per second", base=1024),
            charts.legend(series),
        ]
    lead = "Message data, by topic: what was produced, consumed and replicated."
    return _section("throughput", "Throughput", lead, *parts, _topics(analysis, rows))


def _topics(analysis: Analysis, rows: Sequence[Row]) -> Html:
    """Buckets added up per topic and role."""
    out: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        key = (row["protocol"], row["topic"], row["role"])
        one = out.setdefault(key, {"protocol": key[0], "topic": key[1], "role": key[2], "buckets": 0, "peak": 0.0})
        for name in ("exchanges", "batches", "messages", "refused", "stored_bytes"):
            one[name] = one.get(name, 0) + row[name]
        if row["compression_ratio"]:
            one["uncompressed"] = one.get("uncompressed", 0) + row["uncompressed_bytes"]
            one["sized"] = one.get("sized", 0) + row["uncompressed_bytes"] / row["compression_ratio"]
        one["peak"] = max(one["peak"], row["byte_rate"])
    for one in out.values():
        one["ratio"] = one["uncompressed"] / one["sized"] if one.get("sized") else None
    columns = [
        *(c for c in TABLES["throughput"].columns if c.name in ("protocol", "topic", "role", "exchanges", "batches")),
        *(c for c in TABLES["throughput"].columns if c.name in ("messages", "refused", "stored_bytes")),
        Column("peak", "most bytes per second in one time bucket", "bytes/s"),
        Column("ratio", "uncompressed to stored bytes", "ratio"),
    ]
    ranked = sorted(out.values(), key=lambda r: -r["stored_bytes"])
    return table(
        columns, ranked[:SHOWN], total=len(ranked), more=f"{TABLE_FOLDER}/throughput.parquet", marks={"refused": "warn"}
    )


# --- the rest --------------------------------------------------------------------------------------------------------


def integrity(analysis: Analysis) -> Html:
    """Verdicts per protocol as bars, per topic as a table."""
    rows = analysis["integrity"]
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        one = sums.setdefault((row["protocol"] or "?", row["checksum_kind"] or "none"), dict.fromkeys(VERDICTS, 0))
        for verdict in VERDICTS:
            one[verdict] += row[verdict]
    parts = []
    for (protocol, kind), counts in sorted(sums.items()):
        told = ", ".join(f"{units.count(n)} {verdict}" for verdict, n in counts.items() if n)
        bar = charts.proportion([(v, n, VERDICT_COLOURS[v]) for v, n in counts.items()])
        parts.append(tag("div", _badge(protocol), tag("b", kind), bar, tag("small", told), class_="verdict"))
    lead = (
        "Every checksum on the wire, computed again. Bad only where each byte that it covers was captured, "
        "unverifiable where some are missing, absent where the format carries none."
    )
    shown = sorted(rows, key=lambda r: (-r["bad"], -r["unverifiable"], -r["batches"]))[:SHOWN]
    bad = _table(analysis, "corrupt", analysis["corrupt"][:SHOWN])
    broken = join([tag("h3", "Checksums that do not hold"), bad, tag("h3", "By topic")]) if bad else None
    return _section("integrity", "Integrity", lead, *parts, broken, _table(analysis, "integrity", shown))


def forensics(analysis: Analysis) -> Html:
    """Each bad checksum, looked into."""
    lead = (
        "Each checksum that does not hold: what broke, the bytes as captured and as they should be, who broke it, "
        "and what says so."
    )
    shown = analysis.cases[:CASES]
    rest = None
    if len(analysis.cases) > len(shown):
        told = f"The first {len(shown)} of {len(analysis.cases)}. All of them: "
        rest = tag("p", told, tag("code", CASES_FILE), class_="note")
    return _section("forensics", "Forensics", lead, *(cases.card(case) for case in shown), rest)


def delivery(analysis: Analysis) -> Html:
    """From produce to consume."""
    lead = "From the first byte of a produced batch to the first byte of the same batch on its way to a consumer."
    return _section("delivery", "Delivery", lead, _table(analysis, "delivery", _ranked(analysis, "delivery")))


def clients(analysis: Analysis) -> Html:
    """Who talks."""
    lead = "Who uses which API, in which versions, with what software."
    return _section("clients", "Clients", lead, _table(analysis, "clients", _ranked(analysis, "clients")))


def health(analysis: Analysis) -> Html:
    """Connections, the worst first."""
    lead = (
        "Each connection: what TCP lost or sent again, and how much of the stream was understood. The worst come first."
    )
    return _section("health", "Health", lead, _table(analysis, "health", analysis["health"][:SHOWN]))


def findings(analysis: Analysis) -> Html:
    """Kinds of findings, the worst first."""
    lead = "What a person should look at: each kind with the packet of its first one."
    return _section("findings", "Findings", lead, _table(analysis, "findings", analysis["findings"][:SHOWN]))


SECTIONS = (cost, latency, along_time, errors, throughput, integrity, forensics, delivery, clients, health, findings)


def _foot(analysis: Analysis) -> Html:
    about = analysis.about
    files = [tag("li", tag("code", name)) for name in about.get("files", [])[:200]]
    listed = (
        tag("details", tag("summary", f"{len(about.get('files', []))} captures"), tag("ul", *files)) if files else None
    )
    made = f"brokerscope {about.get('version', '')} · times are UTC · packet numbers count from 1 in each file"
    kept = "The records behind every number are in records/, the tables as Parquet and CSV in tables/."
    return tag("footer", listed, tag("p", kept), tag("p", made))


# --- small things ----------------------------------------------------------------------------------------------------

_MARKS = {
    "errors": "warn",
    "unanswered": "warn",
    "refused": "warn",
    "removed": "warn",
    "bad": "bad",
    "unverifiable": "warn",
    "gaps": "warn",
    "loss_rate": "warn",
    "error_findings": "bad",
    "warning_findings": "warn",
}


def _columns(name: str, rows: Sequence[Row] = ()) -> list[Column]:
    """The columns of a table that people read first, keys of `--by` among them."""
    told = TABLES[name]
    known = {c.name: c for c in told.columns}
    shown = [known[c] for c in told.headline]
    if rows:
        from pipelines.tables import BY

        extra = [BY[c] for c in rows[0] if c in BY and c not in known]
        shown[2:2] = extra
    return shown


def _table(analysis: Analysis, name: str, rows: Sequence[Row]) -> Html:
    total = analysis.rows.get(name, len(rows))
    columns = _columns(name, rows)
    if {"file", "packet"} <= {c.name for c in columns}:
        columns = [c for c in columns if c.name not in ("file", "packet")] + [cells.WHERE]
        rows = [{**row, "where": cells.where(row["file"], row["packet"])} for row in rows]
    return table(columns, rows, total=total, more=f"{TABLE_FOLDER}/{name}.parquet", marks=_MARKS)


def _ranked(analysis: Analysis, name: str) -> list[Row]:
    rank = TABLES[name].rank
    return sorted(analysis[name], key=lambda r: -(r[rank] or 0))[:SHOWN]


def _sum(rows: Iterable[Row], column: str) -> int:
    return sum(row[column] or 0 for row in rows)


def _badge(protocol: Any) -> Html:
    return tag("span", protocol or "other", class_=f"badge {protocol if protocol in COLOURS else ''}".strip())


def _n(value: Any, show: Callable[[Any], str], state: str = "") -> Html:
    return tag("td", show(value), class_=f"n {state}".strip(), data_sort="" if value is None else value)


def _warn(number: float) -> str:
    return "warn" if number else ""


def _topic(name: Any) -> str:
    return "(no topic)" if name is None else str(name)


def _per_second(value: float) -> str:
    return f"{units.short_count(value)}/s"


def _bytes_per_second(value: float) -> str:
    return f"{units.size(value)}/s"
