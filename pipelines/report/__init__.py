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
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pipelines.report.load import Comparison, Frames
    from pipelines.report.records import Records
    from pipelines.sql.selection import Selection
    from pipelines.storage.stored_records import RecordsAt

PAGE = "report.html"
PART = "selection.html"


class PageOptions(NamedTuple):
    """What is asked of a page."""

    selection: Selection | None = None  # the part that it is of
    records: Records | RecordsAt | None = None  # open, or where they lie: OUT/records by default
    anew: bool = False  # whether OUT's tables are not of these records, so that others are computed
    against: Comparison | None = None  # what changed from an earlier OUT
    frames: Frames | None = None  # bytes of requests


def write(out: Path, *, records: Records | RecordsAt | None = None) -> Path:
    """Make the page in a folder that nobody else reads yet; returns its path, OUT/report.html.

    Raises InputError where OUT holds no tables.
    """
    page = out / PAGE
    page.write_bytes(made(str(out), PageOptions(records=records)))
    return page


def write_to(page: str, out: str, asked: PageOptions) -> str:
    """Make the page of an analysis, or of a part of it; returns its place. Both are paths or URLs.

    Raises InputError where OUT holds no tables, or, where some are computed, no records.
    """
    from pipelines.storage import filesystem, outputs
    from pipelines.storage.layout import refuse_read_back

    local, root = filesystem.local_path(page), filesystem.local_path(out)
    if local is not None and root is not None:
        refuse_read_back(local, root)
    text = made(out, asked)
    if local is None:
        filesystem.write(page, text)
    else:
        with outputs.file(local) as stream:
            stream.write(text)
    return page


def made(out: str, asked: PageOptions) -> bytes:
    """The page itself. Arguments and errors as of `write_to`."""
    from pipelines.formats import hosts
    from pipelines.report.load import loaded
    from pipelines.report.page import html
    from pipelines.storage.layout import HOSTS

    with (
        loaded(out, asked.selection, asked.records, anew=asked.anew) as analysis,
        hosts.used(analysis.about.get(HOSTS) or {}),
    ):
        analysis.against, analysis.frames = asked.against, asked.frames
        return html(analysis).encode("utf-8", "backslashreplace")
