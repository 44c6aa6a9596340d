"""The comment on each packet in which a frame begins, and on each that a finding names."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from pipelines.answers.records import Relations, query
from pipelines.formats import statuses, units
from pipelines.formats.plain import clean, cut

TABLES = ("exchanges", "batches", "findings")
LONGEST = 300  # characters of a name in a comment


def comments(tables: Relations, file: str) -> dict[int, list[str]]:
    """Packet number -> comments.

    A request and a response are described at the packet of their first byte, a batch with a bad checksum and a finding
    where they lie.
    """
    made: dict[int, list[str]] = defaultdict(list)
    columns = (
        "api, version, kind, status, error_name, error_code, topics, records, total_ns, wait_ns, long_poll, "
        "request_file, request_packet, response_file, response_packet"
    )
    for row in query(tables, f"SELECT {columns} FROM exchanges WHERE ? IN (request_file, response_file)", (file,)):
        for side in ("request", "response"):
            if row[f"{side}_packet"] is not None and row[f"{side}_file"] == file:
                made[row[f"{side}_packet"]].append(_frame(row, side))
    bad = "SELECT * FROM batches WHERE verdict = 'bad' AND file = ?"
    for row in query(tables, bad, (file,)):
        made[row["packet"]].append(
            f"bad checksum: {row['checksum_kind']} stored {row['checksum_stored']}, "
            f"computed {row['checksum_computed']}, {_name(row['topic'])}"
        )
    wanted = """
        SELECT kind, message, packet FROM findings
        WHERE file = ? AND packet IS NOT NULL AND kind <> 'checksum_mismatch'"""
    for row in query(tables, wanted, (file,)):
        made[row["packet"]].append(f"{row['kind'].replace('_', ' ')}: {_name(row['message'])}")
    return dict(made)


def _frame(row: Mapping[str, Any], side: str) -> str:
    version = "" if row["version"] is None else f" v{row['version']}"
    parts = [f"{row['api'] or 'unknown'}{version} {side if row['kind'] != 'push' else 'push'}"]
    if side == "response":
        if row["wait_ns"] is not None:
            parts.append(f"after {units.duration(row['wait_ns'])}")
        parts.append(statuses.status(row))
        parts.append("long poll" if row["long_poll"] else "")
    elif row["kind"] in ("unanswered", "oneway"):
        parts.append(row["kind"])
    parts.append(_name(", ".join(row["topics"] or [])))
    parts.append(units.counted(row["records"], "record") if row["records"] else "")
    return ", ".join(part for part in parts if part)


def _name(text: str | None) -> str:
    return cut(clean(text or ""), LONGEST)
