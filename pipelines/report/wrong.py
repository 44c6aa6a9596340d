"""What is wrong: a few sentences with numbers, the worst first, each linked to its evidence.

Where little is wrong, what was found good fills the box, so that "nothing" is distinguishable from "not looked at".
Below stands what the captures cannot show.
"""

from __future__ import annotations

from pipelines.blind_spots import LOOKED_AT, Seen
from pipelines.report.checks import WELL, WRONG, Sentence
from pipelines.report.elements import Html, join, shown, tag
from pipelines.report.section import Builder

FEWEST, MOST = 3, 7  # sentences


def box(page: Builder) -> Html:
    """The box on top of the page."""
    wrong = sorted((s for check in WRONG for s in check(page)), key=lambda sentence: sentence.rank)
    found = wrong[:MOST]
    if len(found) < FEWEST:
        found += [s for check in WELL for s in check(page)][: FEWEST - len(found)]
    if not found:
        title = "Nothing to judge"
        found = [Sentence(9, "", "No requests", "of a known protocol are in these captures.", "health")]
    elif found[0].state == "good":
        title = "Nothing is wrong, as far as these captures show"
    else:
        title = "What is wrong"
    items = (
        tag("li", tag("a", tag("b", s.what), " ", s.more, href=f"#{s.link}"), class_=s.state or None) for s in found
    )
    left = f"{MOST} of {len(wrong)} are said; the sections below show the others." if len(wrong) > MOST else None
    heading = tag("h2", title, " ", tag("small", "whole capture", class_="unselected"))
    return tag(
        "section", heading, tag("ol", *items), tag("p", left, class_="note") if left else None, _not_seen(page),
        id="wrong",
    )  # fmt: skip


def _not_seen(page: Builder) -> Html | None:
    """What these captures cannot show, and what to do about it."""
    records = page.analysis.records
    if records is None:
        return None
    seen = Seen()
    for table, columns in LOOKED_AT.items():
        for batch in records.batches(f"select {', '.join(columns)} from {table}"):
            seen.add(table, batch)
    spots = [tag("li", tag("b", f"{shown(spot.text)}:"), " ", shown(spot.advice)) for spot in seen.spots()]
    return join([tag("h3", "What these captures cannot show"), tag("ul", *spots)]) if spots else None
