"""The report: one self-contained HTML page, made from what `analyze` wrote.

load.py      OUT/tables, OUT/analysis.json and OUT/forensics.jsonl -> Analysis
records.py   OUT/records, queried in SQL, in bounded memory
requests.py  records -> requests and batches, one by one or together, with their names: what the page selects from
packed.py    columns of numbers as one text
harm.py      what became of whose work: the head of the page
wrong.py     what is wrong: the grid of verdicts on top
evidence.py  the rows that each verdict counts
section.py   what a section is; sections/: their list, and a module for each that is more than a table
payload.py   tables, requests and verdicts -> the data block of the page
elements.py  HTML that cannot be broken by what a capture holds
colours.py   the colour of each protocol
by_tasks.py  tables and the page, made by tasks
page.py      the whole, with its Content-Security-Policy
assets/      the look, and the script: selection, band of time, tables, pictures, the panel of one request
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pipelines.report.load import Comparison, Frames
    from pipelines.report.records import Records
    from pipelines.sql.selection import Selection
    from pipelines.storage.stored_records import RecordsAt

PAGE = "report.html"
PART = "selection.html"


def write(out: Path, *, records: Records | RecordsAt | None = None) -> Path:
    """Make the page of an analysis; returns its path, OUT/report.html.

    records: the records, open, or where they lie: OUT/records by default. Raises InputError where OUT holds no tables.
    """
    return Path(write_to(str(out / PAGE), str(out), records=records))


def write_to(
    page: str,
    out: str,
    selection: Selection | None = None,
    *,
    records: Records | RecordsAt | None = None,
    anew: bool = False,
    against: Comparison | None = None,
    frames: Frames | None = None,
) -> str:
    """Make the page of an analysis, or of a part of it; returns its place. All are paths or URLs.

    records: the records, open, or where they lie: OUT/records by default. anew: OUT's tables are not of these
    records, so others are computed for the page. against: what changed from an earlier OUT; frames: bytes of requests.
    Raises InputError where OUT holds no tables, or, where some are computed, no records.
    """
    from pipelines.storage import filesystem, outputs
    from pipelines.storage.layout import refuse_read_back

    local, root = filesystem.local_path(page), filesystem.local_path(out)
    if local is not None and root is not None:
        refuse_read_back(local, root)
    text = made(out, selection, records=records, anew=anew, against=against, frames=frames)
    if local is None:
        filesystem.write(page, text)
    else:
        with outputs.file(local) as stream:
            stream.write(text)
    return page


def made(
    out: str,
    selection: Selection | None = None,
    *,
    records: Records | RecordsAt | None = None,
    anew: bool = False,
    against: Comparison | None = None,
    frames: Frames | None = None,
) -> bytes:
    """The page itself. Arguments and errors as of `write_to`."""
    from pipelines.formats import hosts
    from pipelines.report.load import loaded
    from pipelines.report.page import html
    from pipelines.storage.capture_names import HOSTS

    with loaded(out, selection, records, anew=anew) as analysis, hosts.used(analysis.about.get(HOSTS) or {}):
        analysis.against, analysis.frames = against, frames
        return html(analysis).encode("utf-8", "backslashreplace")
