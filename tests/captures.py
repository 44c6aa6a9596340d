"""Captures of real brokers from outside the repository, each with what its client program knows to be true.

Two environment variables say where they are; tests that need what is not there skip, with this as the reason.

    BROKERSCOPE_CAPTURES  a folder with kafka/, pulsar/ and iggy/: NAME.pcap with NAME.json beside it
    BROKERSCOPE_FACTS     a folder of tables gathered from the brokers' own sources: kafka_messages.json,
                          kafka_errors.tsv, kafka_apis.tsv, pulsar_messages.tsv
"""

import os
from pathlib import Path

import pytest


def _folder(variable: str) -> Path | None:
    path = os.environ.get(variable)
    return Path(path).resolve() if path and Path(path).is_dir() else None


CAPTURES = _folder("BROKERSCOPE_CAPTURES")
FACTS = _folder("BROKERSCOPE_FACTS")

needs_captures = pytest.mark.skipif(CAPTURES is None, reason="BROKERSCOPE_CAPTURES names no folder")
needs_facts = pytest.mark.skipif(FACTS is None, reason="BROKERSCOPE_FACTS names no folder")


def captures(protocol: str) -> Path:
    """The folder of a protocol's captures; one that does not exist where there are none."""
    return (CAPTURES or Path("no-captures")) / protocol


def truths(protocol: str) -> list[Path]:
    """The JSON files beside a protocol's captures."""
    return sorted(captures(protocol).glob("*.json"))


def facts(name: str) -> Path:
    """A table of facts; one that does not exist where there are none."""
    return (FACTS or Path("no-facts")) / name
