"""What is wrong: the rows of the table `verdicts` as a grid, the first in sight; and what is not captured."""

from __future__ import annotations

from pipelines.formats import hosts, units, verdict_words, who
from pipelines.formats.plain import cut
from pipelines.report import evidence
from pipelines.report.elements import Html, join, shown, sign, tag
from pipelines.report.load import Row
from pipelines.report.section import Builder
from pipelines.tables.blind_spots import LOOKED_AT, BlindSpot, Seen
from pipelines.tables.dialect import DuckDB
from pipelines.tables.verdicts.kinds import CRITICAL, NOTE, WARNING
from pipelines.tables.verdicts.thresholds import LONGEST_TEXT

FIRST = 5  # verdicts in sight before one asks for more
VERDICTS = 300  # that the page carries
_ROUND = "M8 1.5a6.5 6.5 0 1 0 0 13a6.5 6.5 0 1 0 0-13Z "
_SIGNS = {
    CRITICAL: "M8 1.8 14.6 13.4H1.4Z M8 6.2v3.2 M8 11.4v.1",
    WARNING: f"{_ROUND}M8 4.8v3.8 M8 11v.1",
    NOTE: f"{_ROUND}M8 7.4v3.8 M8 5v.1",
}


def title(page: Builder) -> str:
    """The heading of the page."""
    verdicts = page.analysis.verdicts
    if verdicts:
        return "What is wrong" if verdicts[0]["severity"] != NOTE else "Nothing wrong was seen; worth knowing"
    return "Nothing wrong was seen" if page.count else "Nothing to judge"


def grid(page: Builder) -> Html:
    """The verdicts, and under them what the captures cannot show."""
    every = page.analysis.verdicts
    verdicts = every[: page.payload.limit(VERDICTS)]
    carried = evidence.carry(page, verdicts)
    items = [_item(page, verdict, carried.get(verdict["rank"])) for verdict in verdicts]
    more = tag("summary", f"{units.count(len(items) - FIRST)} more")
    return tag(
        "div",
        _heads() if items else None,
        tag("ol", *items[:FIRST]) if items else tag("p", _checked(page), class_="checked"),
        tag("details", more, tag("ol", *items[FIRST:], start=FIRST + 1), class_="more-verdicts")
        if len(items) > FIRST
        else None,
        _left_out(len(every) - len(verdicts)),
        _not_seen(page, {verdict["kind"] for verdict in every}),
        class_="verdicts",
        id="verdicts",
    )


def _left_out(count: int) -> Html | None:
    """How many verdicts this page does not carry, and where they are."""
    if not count:
        return None
    left = f"{units.counted(count, 'verdict')} of less weight: in tables/verdicts.parquet, not on this page."
    return tag("p", left, class_="note")


def _heads() -> Html:
    return tag(
        "div", *(tag("span", head) for head in ("", "", "who", "when", "cost", "")), class_="heads", aria_hidden="true"
    )


def _checked(page: Builder) -> str:
    """What was looked at, so that nothing wrong is distinguishable from nothing seen."""
    verified = page.analysis.sum("integrity", "ok")
    whole = "nothing missing" if not page.analysis.sum("health", "gap_bytes") else "with gaps"
    return (
        f"{units.counted(page.count, 'request')}, {units.counted(verified, 'checksum')} verified, "
        f"{units.size(page.analysis.sum('health', 'captured_bytes'))} of streams, {whole}."
    )


def _item(page: Builder, verdict: Row, carried: evidence.CarriedEvidence | None) -> Html:
    """One verdict: whole as a sentence; more of it where it is chosen."""
    severity, first = verdict["severity"], verdict_words.where(verdict)
    whom, when, cost = (words(verdict) for words in (verdict_words.who, verdict_words.when, verdict_words.cost))
    clock, _, length = when.partition(" for ")
    chain = [
        join(
            [
                tag("time", f"{link['time']:%H:%M:%S.%f}"[:-3]),
                tag("div", _whole(link["text"]), " ", _packet(page, link)),
            ]
        )
        for link in verdict["chain"]
    ]
    rows = tag("div", class_="rows", data_name=carried.table) if carried and carried.table else None
    return tag(
        "li",
        tag("div", tag("span", sign(_SIGNS[severity], 14), severity, class_=f"sev {severity}"), class_="sevbox"),
        tag(
            "div",
            tag("p", hosts.with_names(_whole(verdict["sentence"])), class_="sentence"),
            tag(
                "p", " ".join(_whole(verdict[text]) for text in ("detail", "advice") if verdict[text]), class_="advice"
            ),
            class_="text",
        ),
        tag(
            "div",
            tag("span", whom, class_="meta"),
            tag("span", clock, tag("small", f" for {length}") if length else None, class_="meta"),
            tag("span", cost, class_="meta"),
            class_="metas",
        ),
        tag("div", _button(verdict, carried), class_="show"),
        tag(
            "div",
            tag("div", *chain, class_="chain") if chain else None,
            _clients(verdict),
            rows or tag("p", first, class_="note"),
            class_="more",
        ),
        id=f"verdict-{verdict['rank']}",
        class_="verdict",
        data_rank=str(verdict["rank"]),
        data_kind=verdict["kind"],
    )


def _clients(verdict: Row) -> Html | None:
    """The clients by address and id, where the sentence counts several of them."""
    named = verdict["clients"]
    if len(named) <= 1:
        return None
    hidden = (verdict.get("client_hosts") or 0) > len(set(who.addresses(named)))
    listed = hosts.with_names(", ".join(cut(name, who.LONGEST_ID) for name in named))
    return tag("p", f"{who.clients(verdict)}: {listed}{' and others' if hidden else ''}", class_="note")


def _button(verdict: Row, carried: evidence.CarriedEvidence | None) -> Html:
    """What a choice selects, told before it is made."""
    counted = verdict_words.counted(verdict)
    if carried and carried.requests < verdict["count"] and not carried.table:
        counted = f"{units.count(carried.requests)} of {counted}"
    return tag("button", counted, type="button", class_="btn", aria_label=f"{counted}: {_whole(verdict['sentence'])}")


def _whole(text: str) -> str:
    """A text of a verdict: a sentence, longer than a name may be; tables of older versions know no limit."""
    return cut(text, LONGEST_TEXT)


def _packet(page: Builder, place: Row) -> Html | None:
    return None if place["packet"] is None else page.packet(place["file"], place["packet"])


def _not_seen(page: Builder, told: set[str]) -> Html | None:
    """What these captures cannot show, and what to do about it. told: kinds of verdicts that the grid has."""
    spots = [tag("li", tag("b", f"{shown(spot.text)}:"), " ", shown(spot.advice)) for spot in _spots(page, told)]
    head = tag("summary", f"What these captures cannot show ({len(spots)})")
    return tag("details", head, tag("ul", *spots), class_="unseen") if spots else None


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
