"""Exact percentiles on Spark, of any number of rows, in memory that depends on the number of groups only.

    source ─► values (keys, measure, value) ─► bins (count of each) ─► picks: the bins that a percentile lies in
                     └──────────────────────── values of those bins ──────► the value at its rank

Functions that hold all values of a group (percentile_disc, sorted arrays) take memory in proportion to the rows, and a
window over all rows of a group sorts them in one task. Here both passes are plain counts, which Spark makes in all
tasks at once and spills where it must. A bin is 1/128 of its values wide at most, so few values are looked at twice.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

QUANTILES = (0.5, 0.9, 0.99, 0.999)
QUANTILE_NAMES = ("p50", "p90", "p99", "p999")
_BITS = 7  # of a value, behind its first one, that tell its bin


def binned(source: str, keys: Sequence[str], values: Mapping[str, str]) -> str:
    """A SELECT of one row a group: the group's keys, and the QUANTILES of each value, for Spark."""
    group = ", ".join(keys)
    groups = f"{group}, measure"
    # values whose logarithm is rounded up get a bin too high, but never one above that of a larger value
    shift = f"cast(floor(greatest(log2(greatest(value, 1)) - {_BITS}, 0e0)) as int)"
    bin = f"{shift} * {2 << _BITS} + shiftright(value, {shift})"
    named = ", ".join(f"'{name}', {value}" for name, value in values.items())
    ranks = ", ".join(
        f"struct({at} as at, {_rank('total', quantile)} as rank)" for at, quantile in enumerate(QUANTILES)
    )
    columns = ", ".join(
        f"max(case when measure = '{name}' and at = {at} then value end) as {name}_{quantile}_ns"
        for name in values
        for at, quantile in enumerate(QUANTILE_NAMES)
    )

    def same(*more: str) -> str:
        return " and ".join(f"p.{key} is not distinct from v.{key}" for key in (*keys, "measure", "bin", *more))

    return f"""
        with numbers as (
            select *, {bin} as bin from (
                select {group}, stack({len(values)}, {named}) as (measure, value) from {source}
            ) where value is not null
        ), bins as (
            select {groups}, bin, count(*) as n from numbers group by {groups}, bin
        ), ranked as (
            select *, sum(n) over (partition by {groups} order by bin) as upto,
                sum(n) over (partition by {groups}) as total
            from bins
        ), picks as (
            select {groups}, bin, pick.at, pick.rank - (upto - n) as nth from (
                select *, explode(array({ranks})) as pick from ranked
            ) where pick.rank > upto - n and pick.rank <= upto
        ), candidates as (
            select {", ".join(f"v.{key}" for key in keys)}, v.measure, v.bin, v.value, count(*) as n
            from numbers v left semi join picks p on {same()}
            group by {", ".join(f"v.{key}" for key in keys)}, v.measure, v.bin, v.value
        ), placed as (
            select *, sum(n) over (partition by {groups}, bin order by value) as upto from candidates
        ), found as (
            select {", ".join(f"p.{key}" for key in keys)}, p.measure, p.at, min(v.value) as value
            from picks p join placed v on {same()} and v.upto >= p.nth
            group by {", ".join(f"p.{key}" for key in keys)}, p.measure, p.at
        )
        select {group}, {columns} from found group by {group}
    """


def _rank(total: str, quantile: float) -> str:
    """Which of so many values in order, from 1, is the quantile: the first one that so large a share is at most."""
    parts = 1000
    share = round(quantile * parts)
    return f"(({total} * {share} + {parts - 1}) div {parts})"
