"""Each bad checksum as a card: what broke, where, the bytes before and after, who did it and why we say so."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pipelines.report.elements import Html, join, tag
from pipelines.report.load import Row
from pipelines.tables.integrity import place

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
    "before_tcp": "broke before TCP: in the sender, or in a box that computes the sum anew",
    "after_tcp": "broke after TCP: on the wire, or in the capture",
    "producer": "broke at the producer",
    "broker": "broke in the broker",
    "undecided": "who broke it is undecided",
}
STATES = {"certain": "bad", "likely": "warn", "undecided": ""}


def card(case: Row) -> Html:
    """One case: an object as `dissectors.forensics.report.as_json` makes it."""
    diagnosis, attribution = case["diagnosis"], case["attribution"]
    title = PATTERNS.get(diagnosis["pattern"], diagnosis["pattern"])
    position = "" if case["partition"] is None else f", partition {case['partition']}"
    position += "" if case["position"] is None else f", position {case['position']}"
    facts = (
        ("Batch", f"{case['role']} of {case['topic'] or 'an unknown topic'}{position}, {case['length']} bytes"),
        ("Checksum", f"{case['checksum_kind']} {case['stored']}, the bytes give {case['computed']}"),
        ("Place", _places(diagnosis["locations"])),
        ("Connection", f"{case['connection']} at {case['time']}"),
        ("Packet", f"{case['packet']} in {case['file']}"),
    )
    return tag(
        "article",
        tag("h3", tag("span", case["protocol"], class_=f"badge {case['protocol']}"), " ", title, _sure(diagnosis)),
        tag("p", diagnosis["note"], class_="note"),
        tag("dl", *(join([tag("dt", name), tag("dd", value)]) for name, value in facts if value)),
        _bytes(diagnosis["excerpt"], {spot["stream_offset"] for spot in diagnosis["locations"]}),
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


def _places(locations: Sequence[Row]) -> str:
    if not locations:
        return ""
    first, fields = locations[0], dict.fromkeys(spot["field"] for spot in locations if spot["field"])
    more = f" and {len(locations) - 1} more" if len(locations) > 1 else ""
    return f"{place(first)}{more}" + (f" ({', '.join(list(fields)[:3])})" if fields else "")


def _bytes(excerpt: Row | None, broken: set[int]) -> Html | None:
    """As captured and as corrected, the broken bytes marked. broken: their offsets in the stream."""
    if not excerpt:
        return None
    captured = bytes.fromhex(excerpt["captured"])
    wrong = [excerpt["stream_offset"] + at in broken for at in range(len(captured))]
    rows = [("captured", captured)]
    if excerpt["corrected"] is not None:
        rows.append(("corrected", bytes.fromhex(excerpt["corrected"])))
    shown = (
        tag(
            "tr", tag("th", name, scope="row"), tag("td", *_hexadecimal(data, wrong)), tag("td", _readable(data, wrong))
        )
        for name, data in rows
    )
    return tag("div", tag("table", tag("tbody", *shown), class_="bytes"), class_="scroll")


def _hexadecimal(data: bytes, wrong: Sequence[bool]) -> list[Any]:
    return [tag("b" if bad else "span", f"{byte:02x}") for byte, bad in zip(data, wrong, strict=True)]


def _readable(data: bytes, wrong: Sequence[bool]) -> Html:
    signs = (chr(byte) if 32 <= byte < 127 else "·" for byte in data)
    return join(tag("b", sign) if bad else sign for sign, bad in zip(signs, wrong, strict=True))


def _verdict(attribution: Row) -> Html:
    told = str(PLACES.get(attribution["where"], attribution["where"]))
    certainty = attribution["certainty"]
    head = f"{certainty}: {told}" if attribution["where"] != "undecided" else told
    reasons = (tag("li", reason) for reason in attribution["because"])
    return tag(
        "div",
        tag("b", head[:1].upper() + head[1:]),
        tag("ul", *reasons),
        class_=f"blame {STATES.get(certainty, '')}".strip(),
    )


def _related(rows: Sequence[Row]) -> Html | None:
    told = []
    for row in rows[:4]:
        what = row["name"] if "name" in row else f"{row['role']}, {row['verdict']}"
        told.append(f"{what} in {row['file']} packet {row['packet']} ({row['why']})")
    return tag("p", "See also: ", "; ".join(told), class_="note") if told else None
