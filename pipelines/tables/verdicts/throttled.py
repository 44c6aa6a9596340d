"""Clients that a quota of the broker held back."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import MS, THROTTLED_MS
from pipelines.tables.verdicts.verdict import Ruling, together


@needs(SomeRows("v_calls", f"throttle_ms >= {THROTTLED_MS}"))
def throttled(capture: Capture) -> Iterator[Ruling]:
    """Answers that tell the client to wait."""
    held_back = f"""
        select * replace (throttle_ms * {MS} as cost_ns) from v_calls where throttle_ms >= {THROTTLED_MS}"""
    apis = "names_of(api) as apis, max(throttle_ms) as longest_ms"
    for row in capture.rows(together(held_back, more=apis)):
        yield Ruling(
            "throttled",
            f"A quota of the broker throttled {say.clients(row)}: {say.times(row['count'])}, "
            f"for {say.most(row['count'], row['longest_ms'] * MS)}.",
            row,
            f"Answers to {say.apis(row['apis'])} told them to wait (throttle_time_ms).",
        )
