"""Findings are data: every kind is in one registry, and nothing outside it can be reported."""

import pytest

from dissectors.findings import ERROR, INFO, KINDS, SUSPICIOUS, WARNING, finding


def test_a_kind_outside_the_registry_cannot_be_reported() -> None:
    with pytest.raises(KeyError):
        finding(None, "no_such_kind", "never seen")


def test_severity_comes_from_the_registry() -> None:
    assert finding(None, "checksum_mismatch", "x").severity == ERROR
    assert finding(None, "gap", "x").severity == WARNING
    assert finding(None, "resync", "x").severity == INFO


def test_every_kind_says_what_it_means_and_what_to_do() -> None:
    for name, kind in KINDS.items():
        assert kind.severity in (INFO, WARNING, ERROR), name
        assert kind.meaning.endswith("."), name
        assert kind.advice.endswith("."), name


def test_forensics_looks_into_kinds_that_exist() -> None:
    assert set(SUSPICIOUS) <= set(KINDS)
    assert "malformed_frame" in SUSPICIOUS
    assert "proxy" not in SUSPICIOUS


def test_evidence_is_json_and_absent_where_there_is_none() -> None:
    assert finding(None, "gap", "x").evidence is None
    assert finding(None, "gap", "x", reason="snaplen").evidence == '{"reason": "snaplen"}'
