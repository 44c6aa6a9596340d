"""Compiles the skimmers of all messages ahead: `python -m dissectors.kafka.precompile`."""

from __future__ import annotations

from dissectors.kafka import schema, shelf
from dissectors.kafka.skim import written


def main() -> None:
    """Keep the code of every skimmer."""
    shelf.keep(
        {
            name: {version: written(name, version).__code__ for version in schema.message(name).versions.each()}
            for name in schema.messages()
            if schema.message(name).kind in ("request", "response")
        }
    )


if __name__ == "__main__":
    main()
