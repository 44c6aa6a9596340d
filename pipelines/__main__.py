"""`python -m pipelines`: the command without its script."""

from pipelines.cli import main

main()
