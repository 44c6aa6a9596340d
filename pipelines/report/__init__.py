"""The report: one self-contained HTML page, made from what `analyze` wrote.

load.py      OUT/tables, OUT/analysis.json and OUT/forensics.jsonl -> Analysis
records.py   OUT/records, asked in SQL, in bounded memory
facts.py     records -> counts by protocol, broker, topic, client, group and time: what the selector works on
checks.py    what may be wrong, a sentence each; wrong.py: the box of them
section.py   what a section is; sections/: one module each
payload.py   tables and facts -> the data block of the page
elements.py  HTML that cannot be broken by what a capture holds
colours.py   the colour of each protocol
page.py      the whole, with its Content-Security-Policy
assets/      the look, and the script: tables, charts, selector, commands to copy
"""

from __future__ import annotations

from pathlib import Path

PAGE = "report.html"


def write(out: Path) -> Path:
    """Make the page of an analysis again; returns its path. Raises InputError where OUT holds no tables."""
    from pipelines import outputs
    from pipelines.report.load import loaded
    from pipelines.report.page import html

    with loaded(out) as analysis:
        made = html(analysis).encode("utf-8", "backslashreplace")
    path = out / PAGE
    with outputs.file(path) as stream:
        stream.write(made)
    return path
