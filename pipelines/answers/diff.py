"""Two capture sets side by side: what became slower, what fails more, what is new and what is gone.

Durations are compared by ranks (Mann-Whitney, normal approximation with ties): one slow request changes nothing, a
shift of many does. Error rates are compared as two proportions. A difference counts when chance would give it less than
once in 400 times (|z| above 3) and both sides have at least FEWEST values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from pipelines.answers.records import Relations, Row, query
from pipelines.sql.words import HELD, SERVER

TABLES = ("exchanges", "errors", "findings", "connections")
FEWEST = 20
CERTAIN = 3.0  # standard deviations
SLIGHT = 0.1  # a median that moved by less is the same to a person

_TIMES = f"""
SELECT protocol, api, count(*) AS count, list(total_ns) FILTER (total_ns IS NOT NULL AND NOT {HELD})
       AS times, count(*) FILTER (status = 'error') AS errors
FROM exchanges GROUP BY 1, 2
"""
_NAMES = {
    "topic": "SELECT DISTINCT unnest(topics) AS name FROM exchanges",
    "client": "SELECT DISTINCT client_id AS name FROM exchanges",
    "server": f"SELECT DISTINCT {SERVER} AS name FROM exchanges",
    "error": "SELECT DISTINCT concat_ws(' to ', name, api) AS name FROM errors WHERE expected IS NOT TRUE",
    "finding": "SELECT DISTINCT kind AS name FROM findings WHERE severity <> 'info'",
}


@dataclass(frozen=True)
class Difference:
    """What changed."""

    apis: list[Row]  # what changed most first
    new: dict[str, list[str]]  # kind of name -> names that only the later set has
    gone: dict[str, list[str]]  # and only the earlier


def diff(before: Relations, after: Relations) -> Difference:
    """Compare two sets of records."""
    sides = [{(r["protocol"], r["api"]): r for r in query(tables, _TIMES)} for tables in (before, after)]
    nothing = {"count": 0, "times": [], "errors": 0}
    rows = [_api(key, *(side.get(key, nothing) for side in sides)) for key in sorted({*sides[0], *sides[1]}, key=str)]
    rows.sort(key=lambda row: (-_WEIGHT[row["verdict"]], -abs(row["z"] or 0), str(row["api"])))
    names = [{kind: _names(tables, sql) for kind, sql in _NAMES.items()} for tables in (before, after)]
    return Difference(
        rows,
        {kind: sorted(names[1][kind] - names[0][kind]) for kind in _NAMES},
        {kind: sorted(names[0][kind] - names[1][kind]) for kind in _NAMES},
    )


# verdict -> how much a person wants to see it first
_WEIGHT = {
    "fails more": 6, "slower": 5, "new": 4, "gone": 3, "fails less": 2, "faster": 2, "same": 1, "too few to say": 0,
}  # fmt: skip


def _api(key: tuple[str, str], before: Mapping[str, Any], after: Mapping[str, Any]) -> Row:
    times = [np.array(side["times"] or [], np.int64) for side in (before, after)]
    slower = rank_sum(*times)
    failing = proportions(before["errors"], before["count"], after["errors"], after["count"])
    medians = [_quantile(values, 0.5) for values in times]
    return {
        "protocol": key[0],
        "api": key[1],
        "verdict": _verdict(before["count"], after["count"], slower, failing, medians),
        "before_count": before["count"],
        "after_count": after["count"],
        "before_p50_ns": medians[0],
        "after_p50_ns": medians[1],
        "before_p99_ns": _quantile(times[0], 0.99),
        "after_p99_ns": _quantile(times[1], 0.99),
        "before_errors": before["errors"],
        "after_errors": after["errors"],
        "z": slower,
    }


def _verdict(before: int, after: int, slower: float | None, failing: float | None, medians: list[int | None]) -> str:
    if not before or not after:
        return "gone" if before else "new"
    if failing is not None and abs(failing) > CERTAIN:
        return "fails more" if failing > 0 else "fails less"
    if slower is None:
        return "too few to say"
    was, now = medians
    if abs(slower) > CERTAIN and was and now is not None and abs(now - was) > SLIGHT * was:
        return "slower" if slower > 0 else "faster"
    return "same"


def rank_sum(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> float | None:
    """How many standard deviations the ranks of `after` lie above chance; None where there are too few values."""
    n, m = len(before), len(after)
    if min(n, m) < FEWEST:
        return None
    _, inverse, counts = np.unique(np.concatenate([before, after]), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    ranks = (last - (counts - 1) / 2)[inverse]
    total = n + m
    ties = float(((counts.astype(float) ** 3) - counts).sum()) / (total * (total - 1))
    spread = math.sqrt(n * m / 12 * (total + 1 - ties))
    if not spread:
        return 0.0
    return float(ranks[n:].sum() - m * (total + 1) / 2) / spread


def proportions(hits: int, of: int, later_hits: int, later_of: int) -> float | None:
    """How many standard deviations a share grew by; None where there are too few values."""
    if min(of, later_of) < FEWEST:
        return None
    pooled = (hits + later_hits) / (of + later_of)
    spread = math.sqrt(pooled * (1 - pooled) * (1 / of + 1 / later_of))
    return (later_hits / later_of - hits / of) / spread if spread else 0.0


def _quantile(values: npt.NDArray[np.int64], share: float) -> int | None:
    return int(np.quantile(values, share, method="inverted_cdf")) if len(values) else None


def _names(tables: Relations, sql: str) -> set[str]:
    return {row["name"] for row in query(tables, sql) if row["name"]}
