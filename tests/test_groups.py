"""Tests that share what is dear run in one worker: each would else start its own JVM, or make its own files."""

import pytest


@pytest.mark.xdist_group("one worker")
def test_the_workers_know_the_groups_of_tests(request: pytest.FixtureRequest) -> None:
    if not getattr(request.config.option, "loadgroup", False):
        pytest.skip("not run by `pytest -n 2 --dist loadgroup`, as `make test` does")
    assert request.node.nodeid.endswith("@one worker")
