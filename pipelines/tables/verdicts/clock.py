"""Clocks that disagree: timestamps of messages that lie ahead of the capture's own time."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import AHEAD_BATCHES, AHEAD_US
from pipelines.tables.verdicts.verdict import Ruling, together

_FUTURE = f"role = 'produce' and epoch_us(max_timestamp) - epoch_us(time) >= {AHEAD_US}"
# batches from the future, of clients whose usual batch is from the future: a single one may have a time of its own
_AHEAD = f"""
    select *, epoch_us(max_timestamp) - epoch_us(time) as ahead_us from v_batches
    where {_FUTURE} and (site, client) in (
        select (site, client) from v_batches where role = 'produce' and epoch_us(max_timestamp) > 0
        group by site, client having count(*) >= {AHEAD_BATCHES}
            and quantile_disc(epoch_us(max_timestamp) - epoch_us(time), 0.5) >= {AHEAD_US})"""


@needs(SomeRows("batches", _FUTURE))
def clock(capture: Capture) -> Iterator[Ruling]:
    """All clients whose messages are from the future."""
    median = "quantile_disc(ahead_us, 0.5) as median_us"
    for row in capture.rows(together(_AHEAD, ["protocol"], median)):
        yield Ruling(
            "clock",
            f"Timestamps of {say.counted(row['count'], 'batch')} of {say.clients(row)} are "
            f"{say.span(row['median_us'] * 1000)} ahead of the capture's clock.",
            row,
        )
