"""Each bad checksum as a card: what broke, where, who did it and what says so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from pipelines.report.elements import Html, badge, join, shown, tag
from pipelines.report.load import Row
from pipelines.report.section import Builder, Section
from pipelines.storage.layout import CASES_FILE
from pipelines.tables.integrity import place

CARDS = 30  # bad checksums that have one
APART = 16  # bytes between two broken ones that are shown as dots; more are counted
RELATED = 4  # related packets that a card names

PATTERNS = {
    "single_bit": "One bit flipped",
    "double_bit": "Two bits flipped",
    "burst": "A burst of wrong bits",
    "stored_checksum": "The stored checksum is wrong",
    "zeroed_run": "Bytes overwritten with zeros",
    "swapped": "Bytes in the wrong order",
    "repeated": "A block repeated",
    "shifted": "Bytes lost or put in",
    "truncated": "The tail is missing",
    "utf8_mangled": "Went through a text decoder",
    "crlf": "Line ends translated",
    "overwritten": "Overwritten",
    "other_segment": "Bytes of another packet",
    "unknown": "Pattern unknown",
}
PLACES = {
    "before_tcp": "broke before TCP: in the sender, or in a device on the way that recomputes the checksum",
    "after_tcp": "broke after TCP: on the wire, or in the capture",
    "producer": "broke at the producer",
    "broker": "broke in the broker",
    "undecided": "who broke it is undecided",
}
STATES = {"certain": "bad", "likely": "warn", "undecided": ""}


def card(case: Row, packet: Html) -> Html:
    """One case: an object as `dissectors.forensics.report.as_json` makes it. packet: where it is, with its commands."""
    diagnosis, attribution = case["diagnosis"], case["attribution"]
    title = PATTERNS.get(diagnosis["pattern"], diagnosis["pattern"])
    position = "" if case["partition"] is None else f", partition {case['partition']}"
    position += "" if case["position"] is None else f", position {case['position']}"
    facts = (
        ("Batch", f"{case['role']} of {shown(case['topic'] or 'an unknown topic')}{position}, {case['length']} bytes"),
        ("Checksum", f"{case['checksum_kind']} {case['stored']}, the bytes give {case['computed']}"),
        ("Place", _packet_refs(diagnosis["locations"])),
        ("Connection", f"{case['connection']} at {case['time']}"),
        ("Packet", packet),
    )
    return tag(
        "article",
        tag("h3", badge(case["protocol"]), " ", title, _sure(diagnosis)),
        tag("p", diagnosis["note"], class_="note"),
        tag("dl", *(join([tag("dt", name), tag("dd", value)]) for name, value in facts if value)),
        _bytes(diagnosis["locations"]),
        _verdict(attribution),
        _related(case["related"]),
        class_="case",
    )


def _sure(diagnosis: Row) -> Html:
    if not diagnosis["verified"]:
        return tag("small", "" if diagnosis["pattern"] == "unknown" else " not proven")
    if diagnosis["candidates"] > 1:
        return tag("small", f" the likeliest of {diagnosis['candidates']} corrections")
    return tag("small", " proven: the corrected bytes match the checksum")


def _packet_refs(locations: Sequence[Row]) -> str:
    if not locations:
        return ""
    first, fields = locations[0], dict.fromkeys(spot["field"] for spot in locations if spot["field"])
    more = f" and {len(locations) - 1} more" if len(locations) > 1 else ""
    left = f" and {len(fields) - 3} more" if len(fields) > 3 else ""
    return f"{place(first)}{more}" + (f" ({', '.join(list(fields)[:3])}{left})" if fields else "")


def _bytes(locations: Sequence[Row]) -> Html | None:
    """The broken bytes, as captured and as corrected, where their values are known; how far they are apart, in dots."""
    broken = {spot["stream_offset"]: spot for spot in locations}
    if not broken or any(spot.get("was") is None for spot in broken.values()):
        return None
    rows = [("captured", "was")]
    if all(spot["should_be"] is not None for spot in broken.values()):
        rows.append(("corrected", "should_be"))
    lines = (tag("tr", tag("th", name, scope="row"), tag("td", *_spaced(broken, key))) for name, key in rows)
    return tag("div", tag("table", tag("tbody", *lines), class_="bytes"), class_="scroll")


def _spaced(broken: Mapping[int, Row], key: str) -> Iterator[Html]:
    """Broken bytes as hexadecimal digits, those between them as dots, or their number where they are many."""
    before = None
    for at in sorted(broken):
        between = 0 if before is None else at - before - 1
        yield tag("span", "··" * between if between <= APART else f"·· {between:,} bytes ··") if between else Html("")
        yield tag("b", f"{broken[at][key]:02x}")
        before = at


def _verdict(attribution: Row) -> Html:
    where = str(PLACES.get(attribution["where"], attribution["where"]))
    certainty = attribution["certainty"]
    head = f"{certainty}: {where}" if attribution["where"] != "undecided" else where
    reasons = (tag("li", reason) for reason in attribution["because"])
    return tag(
        "div",
        tag("b", head[:1].upper() + head[1:]),
        tag("ul", *reasons),
        class_=f"blame {STATES.get(certainty, '')}".strip(),
    )


def _related(rows: Sequence[Row]) -> Html | None:
    seen = []
    for row in rows[:RELATED]:
        what = row["name"] if "name" in row else f"{row['role']}, {row['verdict']}"
        seen.append(f"{what} in {row['file']} packet {row['packet']} ({row['why']})")
    left = f"; and {len(rows) - RELATED:,} more" if len(rows) > RELATED else ""
    return tag("p", "See also: ", "; ".join(seen), left, class_="note") if seen else None


def _build(page: Builder) -> Iterator[Html]:
    cases = page.analysis.cases
    if cases:
        page.payload.table("cases", (), cases, limit=CARDS)
        cards = (card(case, page.packet(case["file"], case["packet"])) for case in cases[:CARDS])
        yield tag("div", *cards, class_="view", data_view="cases")
    if len(cases) > CARDS:
        yield tag("p", f"{CARDS} of {len(cases):,}. All of them: ", tag("code", CASES_FILE), class_="note")


SECTION = Section(
    "forensics",
    "Forensics",
    "Each checksum that does not hold: what broke, who broke it, and what says so. Of the bytes only broken ones are "
    "shown: what is around them may be payload.",
    _build,
)
