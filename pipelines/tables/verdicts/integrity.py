"""Checksums that do not hold."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Verdict, together


def bad_checksum(capture: Capture) -> Iterator[Verdict]:
    """Batches of which every byte was captured, and whose checksum is another."""
    of = "(select count(*) from batches where verdict in ('ok', 'bad'))"
    more = f"{of} as verified, count(*) filter (outcome = 'error') as refused"
    bad = together("select * from v_batches where verdict = 'bad'", ["protocol"], more)
    for row in capture.rows(bad):
        where = say.named(row["topics"], "topic")
        yield Verdict(
            "bad_checksum",
            f"{say.counted(row['count'], 'checksum', 'does', 'do')} not hold{where and f' in {where}'}: "
            f"{say.share(row['count'], row['verified'])} of those that could be verified.",
            row,
            f"The receiver refused {say.counted(row['refused'], 'batch')} of these." if row["refused"] else None,
        )
