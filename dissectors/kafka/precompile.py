"""Compiles the summaries of all messages ahead: `python -m dissectors.kafka.precompile`."""

from __future__ import annotations

from dissectors.kafka import code_cache, schema
from dissectors.kafka.body_summary import written


def main() -> None:
    """Keep the code of every summariser."""
    code_cache.keep(
        {
            name: {version: written(name, version).__code__ for version in schema.message(name).versions.each()}
            for name in schema.messages()
            if schema.message(name).kind in ("request", "response")
        }
    )


if __name__ == "__main__":
    main()
