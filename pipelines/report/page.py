"""The whole page: what is wrong, the band of time, the numbers, the requests, the sections, and the browser's rules."""

from __future__ import annotations

import base64
import hashlib
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

from dissectors.session.protocols import protocols
from pipelines.formats import units
from pipelines.report import harm, wrong
from pipelines.report.elements import Html, join, shown, sign, tag
from pipelines.report.load import Analysis
from pipelines.report.payload import Payload
from pipelines.report.section import Builder, Section, framed
from pipelines.report.sections import SECTIONS, SIDE_BY_SIDE

ASSETS = Path(__file__).parent / "assets"
# in this order: each file uses only what stands before it, or what is there once all are read
SCRIPTS = (
    "theme", "units", "dom", "data", "state", "filter", "clock", "scale", "packets", "selected_rows", "tables",
    "header", "verdicts", "band", "tiles", "requests", "panel", "pivots", "topology", "spreads", "members",
    "partitions", "owners", "lag", "causes", "views", "keys", "start",
)  # fmt: skip
STYLES = ("colours", "first_screen", "sections", "panel", "narrow")
BYTES = 2_000_000  # of a page, that browsers open at once and people can send
LEAST = 0.001  # share of its rows with which a page is made
LISTED = 200  # files named at the foot
PROBLEMS = 5  # files that could not be read, named at the top
REQUESTS = Section("slow", "Requests", "", lambda page: ())
KEYS = (
    (("/",), "search: Enter adds a filter, Alt Enter excludes, Backspace takes the last one away"),
    (("j", "k"), "the next and the previous verdict or request"),
    (("Enter",), "choose a verdict, open a request"),
    (("Esc",), "close the request; then show everything again"),
    (("z",), "zoom the band into the selected time, and out again; a double click shows the whole capture"),
    (("←", "→", "+", "−"), "move and resize the time range, with the band in focus"),
    (("?",), "this list"),
)
_SEARCH = "M7 1.8a5.2 5.2 0 1 0 0 10.4A5.2 5.2 0 1 0 7 1.8ZM11 11l3.4 3.4"
_HELP = "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13Z M6.2 6.3A1.9 1.9 0 1 1 8.6 8.1Q8 8.4 8 9.2 M8 11.4v.1"
_THEME = "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13Z M8 1.5v13 M10 3v10 M12 4.5v7"
_UP, _DOWN, _CLOSE = "M3.5 10 8 5.5 12.5 10", "M3.5 6 8 10.5 12.5 6", "M4 4l8 8M12 4l-8 8"


def html(analysis: Analysis) -> str:
    """The page as text, of at most BYTES: of tables, requests and names it carries as many as fit."""
    share, page = 1.0, ""
    while share > LEAST:
        page = _html(analysis, share)
        size = len(page.encode("utf-8", "backslashreplace"))
        if size <= BYTES:
            break
        share *= min(0.8, 0.9 * BYTES / size)
    return page


def _html(analysis: Analysis, share: float) -> str:
    """The page with a share of the rows and names that it may carry."""
    builder = Builder(analysis, Payload(share))
    if builder.requests:
        builder.payload.requests(builder.requests.carried())
    frames = analysis.frames
    if frames:
        builder.payload.frames(frames.of)
    grid = wrong.grid(builder)
    built = {section: section.html(builder) for section in SECTIONS}
    pair = [built[section] for section in SIDE_BY_SIDE if built[section]]
    style = Html("\n".join(_asset(f"{name}.css") for name in STYLES) + colours())
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
        tag("a", "To the requests", class_="skip", href="#slow"),
        _header(),
        tag(
            "main",
            _head(builder),
            grid,
            _band(),
            tag("div", id="tiles", class_="tiles"),
            tag("noscript", "The rest of this page, its pictures and tables, is drawn by its script."),
            _requests(),
            tag("div", *pair, class_="pair") if pair else None,
            *(html for section, html in built.items() if html and section not in SIDE_BY_SIDE),
            class_="wrap",
        ),
        _foot(analysis, [section.title for section, html in built.items() if not html]),
        _panel(),
        _keys(),
        tag("div", id="tip", class_="tip", hidden=""),
        tag("div", id="live", class_="live", role="status", aria_live="polite"),
        tag("script", Html(builder.payload.block()), type="application/deflate", id="data"),
        tag("script", script),
    )
    return "<!doctype html>\n" + tag("html", head, body, lang="en")


def _asset(name: str) -> str:
    return (ASSETS / name).read_text(encoding="utf-8")


def _script() -> str:
    return '"use strict";\n(async () => {\n' + "\n".join(_asset(f"{name}.js") for name in SCRIPTS) + "})();\n"


def colours() -> str:
    """The colours of protocols, light and dark, as custom properties and as classes of badges."""
    found = {protocol.name: protocol.colours for protocol in protocols()}
    light = "".join(f"--{name}:{colours[0]};" for name, colours in found.items())
    dark = "".join(f"--{name}:{colours[1]};" for name, colours in found.items())
    badges = "".join(f".badge.{name}{{background:var(--{name})}}" for name in found)
    return f':root{{{light}}}@media screen{{:root[data-theme="dark"]{{{dark}}}}}{badges}'


def _policy(script: str, style: str) -> str:
    """Nothing runs and nothing is fetched but this page's own script and style."""
    return (
        f"default-src 'none'; script-src '{_digest(script)}'; style-src '{_digest(style)}'; base-uri 'none'; "
        "form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _icon_button(name: str, says: str, path: str) -> Html:
    return tag("button", sign(path, 17), id=name, type="button", class_="icon", aria_label=says, title=says)


def _header() -> Html:
    """What is selected, always in sight: chips, the search, how many requests."""
    find = tag(
        "input", id="find", role="combobox", aria_label="Filter", aria_expanded="false", aria_controls="menu",
        aria_autocomplete="list", autocomplete="off", spellcheck="false",
    )  # fmt: skip
    menu = tag("ul", id="menu", class_="menu", role="listbox", aria_label="Suggestions", hidden="")
    search = tag(
        "div", sign(_SEARCH, 15), tag("div", id="chips", class_="chips"), find, tag("kbd", "/"), menu,
        class_="filter-bar", role="search",
    )  # fmt: skip
    return tag(
        "header",
        tag(
            "div",
            tag("a", "brokerscope", href="#top", class_="brand"),
            tag("button", id="mini", type="button", class_="mini", hidden="", aria_label="To the band of time"),
            search,
            tag("span", id="count", class_="count"),
            _icon_button("help-button", "Keys (?)", _HELP),
            _icon_button("theme", "Light or dark", _THEME),
            class_="wrap",
        ),
        class_="bar",
        id="top",
    )


def _head(builder: Builder) -> Html:
    analysis = builder.analysis
    captures = analysis.about.get("files", [])
    where = (
        (shown(captures[0].rsplit("/", 1)[-1]) if len(captures) == 1 else units.counted(len(captures), "capture"))
        if captures
        else ""
    )
    selection = analysis.about.get("selection")
    part_of = f"only {shown(selection)}" if selection else ""
    problems = analysis.about.get("problems", [])
    lines = [tag("li", shown(problem)) for problem in problems[:PROBLEMS]]
    if len(problems) > PROBLEMS:
        lines.append(tag("li", f"… and {len(problems) - PROBLEMS} more"))
    about = " · ".join(part for part in (where, part_of, _span(analysis), _parties(builder)) if part)
    return join(
        [
            tag(
                "div",
                tag("h1", wrong.title(builder)),
                tag("p", about),
                tag("p", _facts(builder), class_="facts"),
                class_="head",
            ),
            tag("ul", *lines, class_="problems") if problems else None,
            harm.told(builder),
        ]
    )


def _parties(builder: Builder) -> str:
    """How many brokers, clients and connections there are, and of which protocols."""
    counts = {row["protocol"]: row["connections"] for row in builder.analysis["traffic"]}
    counts = counts or Counter(row["protocol"] for row in builder.analysis["health"])  # of a version without that table
    ranked = sorted(counts.items(), key=lambda item: -item[1])
    connections = ", ".join(f"{count:,} {name or 'other'}" for name, count in ranked)
    return f"connections: {connections}" if connections else ""


def _facts(builder: Builder) -> str:
    """How much of the capture was decoded, and what is missing or broken in it."""
    analysis = builder.analysis
    bad, good = (analysis.sum("integrity", column) for column in ("bad", "ok"))
    lost, captured = (analysis.sum("health", column) for column in ("gap_bytes", "captured_bytes"))
    framed, skipped, pending = (
        analysis.sum("health", f"{column}_bytes") for column in ("framed", "skipped", "pending")
    )
    whole = framed + skipped + pending
    return " · ".join(
        part
        for part in (
            f"{units.share(framed / whole)} of {units.size(captured)} decoded" if whole else "",
            f"{units.size(lost)} missing" if lost else "nothing missing" if captured else "",
            f"{units.counted(bad, 'bad checksum')} of {units.count(bad + good)}" if bad else "",
            f"{units.counted(good, 'checksum')} verified, none bad" if good and not bad else "",
        )
        if part
    )


def _band() -> Html:
    plot = {
        "tabindex": "0",
        "role": "group",
        "aria-label": "Time range. Arrow keys move it, plus and minus change its width.",
    }
    return tag(
        "div",
        tag("div", id="caption", class_="caption"),
        tag("div", id="plot", class_="plot", **plot),
        id="band",
        class_="band",
    )


def _requests() -> Html:
    polls = tag("label", tag("input", type="checkbox", id="polls"), " with long polls", class_="check", id="polls-box")
    rows = tag("div", tag("div", id="fill", class_="fill", role="presentation"), tag("div", id="rows", role="rowgroup"),
               id="scroll", class_="rows-box", tabindex="0", role="grid", aria_label="Requests")  # fmt: skip
    heads = tag(
        "div", tag("div", id="columns", class_="thead", role="row"), role="table", aria_label="Order of requests"
    )
    table = tag("div", heads, rows, class_="table")
    none = tag("p", "No request of this selection. Esc shows all again.", id="none", class_="none", hidden="")
    legend = tag("div", id="stages", class_="legend right")
    return framed(REQUESTS, join([table, none]), tag("p", id="slow-note"), legend, polls)


def _panel() -> Html:
    """The place of one request."""
    title = tag("h2", id="panel-title", tabindex="-1")
    buttons = [
        _icon_button("previous", "Previous request (k)", _UP),
        _icon_button("next", "Next request (j)", _DOWN),
        _icon_button("close", "Close (Esc)", _CLOSE),
    ]
    head = tag("div", title, *buttons, class_="panel-head")
    return tag(
        "aside",
        head,
        tag("div", id="panel-body", class_="panel-body"),
        id="panel",
        class_="panel",
        aria_labelledby="panel-title",
        hidden="",
    )


def _keys() -> Html:
    lines = (
        join([tag("dt", join([join([" ", tag("kbd", key)]) for key in keys])), tag("dd", does)]) for keys, does in KEYS
    )
    return tag("dialog", tag("h2", "Keys"), tag("dl", *lines), id="help", aria_label="Keys")


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


def _shown_bytes(analysis: Analysis) -> Html | None:
    """Of how many requests bytes were asked for, and are here."""
    frames = analysis.frames
    if frames is None:
        return None
    left = frames.named - len(frames.of)
    said = f"{units.counted(len(frames.of), 'request')} that verdicts name {'has' if len(frames.of) == 1 else 'have'} "
    more = f" {units.count(left)} more have not: `brokerscope show FILE:PACKET --bytes` shows each." if left > 0 else ""
    return tag("p", f"{said}bytes in the panel.{more}")


def _foot(analysis: Analysis, empty: list[str]) -> Html:
    about: dict[str, Any] = analysis.about
    names = about.get("files", [])
    files = [tag("li", tag("code", shown(name))) for name in names[:LISTED]]
    if len(names) > LISTED:
        files.append(tag("li", f"… and {len(names) - LISTED:,} more"))
    listed = tag("details", tag("summary", units.counted(len(names), "capture")), tag("ul", *files)) if files else None
    nothing = tag("p", f"Nothing of this in these captures: {', '.join(empty)}.", class_="nothing") if empty else None
    made = f"brokerscope {about.get('version', '')} · times are UTC · packet numbers count from 1 in each file"
    kept = "The records behind every number are in records/, the tables as Parquet and CSV in tables/."
    return tag("footer", nothing, listed, _shown_bytes(analysis), tag("p", kept), tag("p", made), class_="wrap")
