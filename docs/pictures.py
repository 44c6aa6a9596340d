"""Draws the pictures of the README from the samples, so that they stay true: `make pictures`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from tests import chromium

ROOT = Path(__file__).parent.parent
PICTURES = {  # file -> width, height in pixels; dark
    "report.png": (1300, 1300, False),
    "report-dark.png": (1300, 950, True),
}
CLICKED = {"report-dark.png": ".tr"}  # what is clicked before


def main() -> None:
    """Analyse the samples, and photograph the page."""
    with TemporaryDirectory() as folder, chromium.tab() as tab:
        out = Path(folder) / "out"
        analyze = [sys.executable, "-m", "brokerscope", "analyze", "samples", "-o", str(out), "--quiet"]
        subprocess.run(analyze, cwd=ROOT, check=True)
        for name, (width, height, dark) in PICTURES.items():
            tab.window(width, height, dark=dark)
            tab.open(out / "report.html")
            if name in CLICKED:
                tab.click(CLICKED[name])
                tab.run("Promise.all(document.getAnimations().map((one) => one.finished)).then(() => 1)")
            if tab.complaints:
                raise SystemExit(f"the page complains: {tab.complaints}")
            tab.picture(ROOT / "docs" / name)
            print(f"docs/{name}")


if __name__ == "__main__":
    main()
