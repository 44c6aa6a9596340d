"""The whole page: what is wrong, the numbers on top, the selector, the sections, and the rules for the browser."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from pipelines.formats import units
from pipelines.report import colours, wrong
from pipelines.report.elements import Html, join, shown, tag
from pipelines.report.load import Analysis
from pipelines.report.payload import CARRIED, Payload
from pipelines.report.section import Builder
from pipelines.report.sections import SECTIONS
from pipelines.tables.verdicts.thresholds import UNDERSTOOD

ASSETS = Path(__file__).parent / "assets"
# in this order: each file uses only what stands before it
SCRIPTS = ("theme", "units", "dom", "data", "select", "packets", "tables", "axis", "charts", "pivots", "views", "start")
_MOVED = "select role, coalesce(sum(messages), 0)::bigint as n from throughput group by role"
LISTED = 200  # files named at the foot
PROBLEMS = 5  # files that could not be read, named at the top


def html(analysis: Analysis) -> str:
    """The page as text."""
    builder = Builder(analysis, Payload())
    box = wrong.box(builder)
    sections = [section.html(builder) for section in SECTIONS]
    builder.payload.facts(analysis.facts)
    style = Html((ASSETS / "page.css").read_text(encoding="utf-8") + colours.css())
    script = Html(_script())
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=_policy(script, style)),
        tag("meta", name="viewport", content="width=device-width,initial-scale=1"),
        tag("title", f"brokerscope: {_span(analysis) or 'no packets'}"),
        tag("style", style),
    )
    body = tag(
        "body",
        _navigation(),
        tag("div", _top(analysis), box, _tiles(builder), class_="top"),
        tag("div", id="selector", role="group", aria_label="Select"),
        tag("main", tag("noscript", "Tables and charts are drawn by the script of this page."), *sections),
        _foot(analysis),
        tag("script", Html(builder.payload.json()), type="application/json", id="data"),
        tag("script", script),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _script() -> str:
    files = ((ASSETS / f"{name}.js").read_text(encoding="utf-8") for name in SCRIPTS)
    return '"use strict";\n(() => {\n' + "\n".join(files) + "})();\n"


def _policy(script: str, style: str) -> str:
    """Nothing runs and nothing is fetched but this page's own script and style."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _navigation() -> Html:
    links = (tag("a", section.navigation, href=f"#{section.name}") for section in SECTIONS)
    toggle = tag("button", "◐", id="theme", type="button", title="Light or dark", aria_label="Light or dark")
    return tag("nav", tag("a", tag("b", "brokerscope"), href="#top"), tag("div", *links), toggle, id="top")


def _top(analysis: Analysis) -> Html:
    captures = analysis.about.get("files", [])
    where = units.counted(len(captures), "capture") if captures else ""
    selection = analysis.about.get("selection")
    part_of = f"only {shown(selection)}" if selection else ""
    problems = analysis.about.get("problems", [])
    lines = [tag("li", shown(problem)) for problem in problems[:PROBLEMS]]
    if len(problems) > PROBLEMS:
        lines.append(tag("li", f"… and {len(problems) - PROBLEMS} more"))
    return join(
        [
            tag("h1", "What the brokers did"),
            tag("p", " · ".join(part for part in (where, part_of, _span(analysis)) if part), class_="sub"),
            tag("ul", *lines, class_="problems") if problems else None,
        ]
    )


def _tiles(builder: Builder) -> Html:
    analysis = builder.analysis
    # requests are counted along time: by topic, one that names two would count twice
    calls, failed, unanswered = (analysis.sum("activity", c) for c in ("count", "errors", "unanswered"))
    bad, good = (analysis.sum("integrity", c) for c in ("bad", "ok"))
    lost, captured = (analysis.sum("health", c) for c in ("gap_bytes", "captured_bytes"))
    packets, resent = (analysis.sum("health", c) for c in ("packets", "retransmissions"))
    framed, skipped, pending = (analysis.sum("health", f"{c}_bytes") for c in ("framed", "skipped", "pending"))
    connections, verified, whole = analysis.first("health", CARRIED).total, good + bad, framed + skipped + pending
    moved = dict.fromkeys(("produce", "consume"), 0)
    moved |= {row["role"]: row["n"] for row in builder.tables(_MOVED)}
    worst = sum(row["count"] for row in analysis["findings"] if row["severity"] == "error")
    expected = sum(row["n"] for row in builder.counted("select count(*) as n from expected"))
    failed = max(0, failed - expected)  # as in the tables and charts below
    refused = f"{units.share(failed / calls)} of answers" if calls else ""
    refused += f"; {units.count(expected)} more are part of normal work" if expected else ""
    tiles = (
        ("connections", "health", "Connections", units.count(connections), _protocols(analysis), ""),
        ("requests", "time", "Requests", units.count(calls + unanswered), f"{units.count(unanswered)} unanswered", ""),
        ("errors", "errors", "Errors", units.count(failed), refused, "warn" if failed else ""),
        (
            "messages", "topics", "Messages", units.count(moved["produce"]),
            f"produced; {units.count(moved['consume'])} consumed", "",
        ),
        (
            "checksums", "integrity", "Bad checksums", units.count(bad),
            f"of {units.count(verified)} verified" if verified else "none to verify",
            "bad" if bad else "good" if verified else "",
        ),
        (
            "decoded", "health", "Decoded", units.share(framed / whole) if whole else "–",
            f"of {units.size(captured)} captured", "warn" if framed < whole * UNDERSTOOD else "",
        ),
        (
            "lost", "health", "Lost", units.size(lost),
            f"{units.counted(resent, 'retransmission')} in {units.counted(packets, 'packet')}", "warn" if lost else "",
        ),
        ("findings", "findings", "Findings", units.count(worst), "of severity error", "bad" if worst else "good"),
    )  # fmt: skip
    return tag("div", *(_tile(*tile) for tile in tiles), class_="tiles")


def _tile(figure: str, link: str, name: str, value: str, note: str, state: str) -> Html:
    """A figure of the whole capture; figure: the name by which the script finds that of a selection."""
    parts = (tag("span", name), tag("b", value), tag("small", note))
    view = {"data_view": "tile", "data_figure": figure}
    return tag("a", *parts, class_=f"tile {state}".strip(), href=f"#{link}", **view)


def _protocols(analysis: Analysis) -> str:
    counts = {row["protocol"]: row["connections"] for row in analysis["traffic"]}
    counts = counts or Counter(row["protocol"] for row in analysis["health"])  # of a version without that table
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    return ", ".join(f"{count:,} {name or 'other'}" for name, count in ranked)


def _span(analysis: Analysis) -> str:
    spans = [(row["first_time"], row["last_time"]) for row in analysis["traffic"] if row["first_time"]]
    if not spans:
        rows = [row for row in analysis["health"] if row["start_time"]]
        ends = (row["start_time"] + timedelta(microseconds=(row["duration_ns"] or 0) // 1000) for row in rows)
        spans = [(row["start_time"], end) for row, end in zip(rows, ends, strict=True)]
    if not spans:
        return ""
    first, last = min(begin for begin, _ in spans), max(end for _, end in spans)
    return f"{first:%Y-%m-%d %H:%M:%S} UTC, {units.duration((last - first).total_seconds() * 1e9)}"


def _foot(analysis: Analysis) -> Html:
    about: dict[str, Any] = analysis.about
    names = about.get("files", [])
    files = [tag("li", tag("code", shown(name))) for name in names[:LISTED]]
    if len(names) > LISTED:
        files.append(tag("li", f"… and {len(names) - LISTED:,} more"))
    listed = tag("details", tag("summary", units.counted(len(names), "capture")), tag("ul", *files)) if files else None
    made = f"brokerscope {about.get('version', '')} · times are UTC · packet numbers count from 1 in each file"
    kept = "The records behind every number are in records/, the tables as Parquet and CSV in tables/."
    return tag("footer", listed, tag("p", kept), tag("p", made))
