"""What is wrong: the rows of the table `verdicts`, the first in sight, the others folded; and what is not captured."""

from __future__ import annotations

from pipelines.formats import units, verdict_words
from pipelines.formats.plain import cut
from pipelines.report import evidence
from pipelines.report.elements import Html, join, shown, tag
from pipelines.report.load import Row
from pipelines.report.section import Builder
from pipelines.tables.blind_spots import LOOKED_AT, BlindSpot, Seen
from pipelines.tables.dialect import DuckDB
from pipelines.tables.verdicts.kinds import NOTE
from pipelines.tables.verdicts.thresholds import LONGEST_TEXT

FIRST = 5  # verdicts in sight before one asks for more


def box(page: Builder) -> Html:
    """The box on top of the page."""
    verdicts = page.analysis.verdicts
    tables = evidence.carry(page, verdicts)
    items = [_item(page, verdict, tables.get(verdict["rank"])) for verdict in verdicts]
    rest = tag("details", tag("summary", f"{units.count(len(items) - FIRST)} more"), _list(items[FIRST:], FIRST + 1))
    return tag(
        "section",
        tag("h2", _title(page), " ", tag("small", "whole capture", class_="unselected")),
        _list(items[:FIRST]) if items else tag("p", _checked(page)),
        rest if len(items) > FIRST else None,
        _not_seen(page, {verdict["kind"] for verdict in verdicts}),
        id="wrong",
    )


def _title(page: Builder) -> str:
    verdicts = page.analysis.verdicts
    if verdicts:
        return "What is wrong" if verdicts[0]["severity"] != NOTE else "Nothing wrong was seen; worth knowing"
    return "Nothing wrong was seen" if page.analysis.sum("activity", "count") else "Nothing to judge"


def _checked(page: Builder) -> str:
    """What was looked at, so that nothing wrong is distinguishable from nothing seen."""
    requests = page.analysis.sum("activity", "count") + page.analysis.sum("activity", "unanswered")
    verified = page.analysis.sum("integrity", "ok")
    whole = "nothing missing" if not page.analysis.sum("health", "gap_bytes") else "with gaps"
    return (
        f"{units.counted(requests, 'request')}, {units.counted(verified, 'checksum')} verified, "
        f"{units.size(page.analysis.sum('health', 'captured_bytes'))} of streams, {whole}."
    )


def _list(items: list[Html], start: int = 1) -> Html:
    return tag("ol", *items, start=start)


def _item(page: Builder, verdict: Row, table: str | None) -> Html:
    """One verdict. table: name of the carried table of the rows that it counts."""
    about = [verdict_words.who(verdict), verdict_words.when(verdict), verdict_words.cost(verdict)]
    if table is None:
        about.append(verdict_words.where(verdict))
    rows = (
        tag("div", class_="view", data_view="evidence", data_name=table, data_verdict=verdict["rank"] - 1)
        if table
        else None
    )
    chain = [
        tag("li", tag("b", f"{link['time']:%H:%M:%S.%f}"[:-3]), " ", _whole(link["text"]), " ", _packet(page, link))
        for link in verdict["chain"]
    ]
    return tag(
        "li",
        tag("b", verdict["severity"]),
        " ",
        _whole(verdict["sentence"]),
        tag("small", " · ".join(part for part in about if part)),
        tag("small", " ".join(_whole(text) for text in (verdict["detail"], verdict["advice"]) if text)),
        tag("details", tag("summary", "how it went"), tag("ul", *chain)) if chain else None,
        tag("details", tag("summary", verdict_words.counted(verdict)), rows, class_="evidence") if rows else None,
        id=f"verdict-{verdict['rank']}",
        class_=verdict["severity"],
        data_kind=verdict["kind"],
    )


def _whole(text: str) -> str:
    """A text of a verdict: a sentence, longer than a name may be; tables of older versions know no limit."""
    return cut(text, LONGEST_TEXT)


def _packet(page: Builder, place: Row) -> Html | None:
    return None if place["packet"] is None else page.packet(place["file"], place["packet"])


def _not_seen(page: Builder, told: set[str]) -> Html | None:
    """What these captures cannot show, and what to do about it. told: kinds of verdicts that the box has."""
    spots = [tag("li", tag("b", f"{shown(spot.text)}:"), " ", shown(spot.advice)) for spot in _spots(page, told)]
    return join([tag("h3", "What these captures cannot show"), tag("ul", *spots)]) if spots else None


def _spots(page: Builder, told: set[str]) -> list[BlindSpot]:
    records = page.analysis.records
    if records is None:
        return []
    seen = Seen()
    for table, columns in LOOKED_AT.items():
        named = ", ".join(map(DuckDB().quoted, columns))
        for batch in records.batches(f"select {named} from {table}"):
            seen.add(table, batch)
    return [spot for spot in seen.spots() if spot.verdict not in told]
