"""Draws the pictures of the README from the samples, so that they stay true: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import chromium

ROOT = Path(__file__).parent.parent
PICTURES = {  # file -> width, height in pixels; dark
    "report.png": (1300, 1400, False),
    "report-dark.png": (1300, 950, True),
}
START = {"report-dark.png": "#time"}  # the section at which a picture begins; the top of the page otherwise


def main() -> None:
    """Analyse the samples, and photograph the page."""
    with TemporaryDirectory() as folder, chromium.tab() as tab:
        out = Path(folder) / "out"
        analyze = [sys.executable, "-m", "brokerscope", "analyze", "samples", "-o", str(out), "--quiet"]
        subprocess.run(analyze, cwd=ROOT, check=True)
        for name, (width, height, dark) in PICTURES.items():
            tab.window(width, height, dark=dark)
            tab.open(out / "report.html")
            if name in START:
                tab.run(f"document.querySelector('{START[name]}').scrollIntoView()")
                tab.settle()
            if tab.complaints:
                raise SystemExit(f"the page complains: {tab.complaints}")
            tab.picture(ROOT / "docs" / name)
            print(f"docs/{name}")


if __name__ == "__main__":
    main()
