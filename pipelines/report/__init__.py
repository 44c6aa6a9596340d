"""The report: one self-contained HTML page, made from the tables that `analyze` wrote.

load.py      OUT/tables, OUT/analysis.json and OUT/forensics.jsonl -> Analysis
elements.py  HTML that cannot be broken by what a capture holds
charts.py    numbers -> SVG
cases.py     a bad checksum -> its card
sections.py  Analysis -> the sections of the page
page.css, page.js   looks; sorting and filtering
"""

from __future__ import annotations

from pathlib import Path

PAGE = "report.html"


def write(out: Path) -> Path:
    """Make the page of an analysis again; returns its path. Raises InputError where OUT holds no tables."""
    from pipelines.report.load import load
    from pipelines.report.sections import page

    path = out / PAGE
    path.write_text(page(load(out)), encoding="utf-8", errors="backslashreplace")
    return path
