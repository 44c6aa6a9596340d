"""`python -m brokerscope`: the command without its script."""

from __future__ import annotations

from pipelines.cli import main

if __name__ == "__main__":
    main()
