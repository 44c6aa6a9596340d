"""Checksums that are wrong."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.formats import units
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.verdict import Ruling, together


@needs(SomeRows("batches", "verdict = 'bad'"))
def bad_checksum(capture: Capture) -> Iterator[Ruling]:
    """Batches of which every byte was captured, and whose checksum is another."""
    of = "(select count(*) from batches where verdict in ('ok', 'bad'))"
    more = f"{of} as verified, count(*) filter (outcome = 'error') as refused"
    bad = together("select * from v_batches where verdict = 'bad'", ["protocol"], more)
    for row in capture.rows(bad):
        where = say.named(row["topics"], "topic")
        yield Ruling(
            "bad_checksum",
            f"{units.count(row['count'])} of {say.counted(row['verified'], 'checksum')} "
            f"{'is' if row['count'] == 1 else 'are'} wrong{where and f', in {where}'}.",
            row,
            f"The receiver refused {say.counted(row['refused'], 'batch')} of these." if row["refused"] else None,
        )
