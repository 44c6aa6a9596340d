"""Bytes that the capture lacks."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.kinds import NOTE, WARNING
from pipelines.tables.verdicts.thresholds import LOST_SHARE
from pipelines.tables.verdicts.verdict import Ruling, together


@needs(SomeRows("connections", "gap_bytes > 0"))
def capture_loss(capture: Capture) -> Iterator[Ruling]:
    """Connections with holes."""
    sums = """saturated(sum(gap_bytes)) as lost,
        (select saturated(sum(client_bytes::hugeint + server_bytes))
            from connections where protocol is not null) as captured"""
    for row in capture.rows(together("select * from v_connections where gap_bytes > 0", more=sums)):
        lost = row["lost"] / (row["lost"] + (row["captured"] or 0))
        yield Ruling(
            "capture_loss",
            f"The capture lacks {units.size(row['lost'])}, {units.share(lost)} of the streams, "
            f"on {say.counted(row['count'], 'connection')}.",
            row,
            "No verdict is given on answers there that may lie in the missing bytes.",
            WARNING if lost >= LOST_SHARE else NOTE,
        )
