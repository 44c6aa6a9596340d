"""For all tests: which ones `make check` leaves out, and how many examples of a property are tried.

A test gets its marker here, by what it uses or where it lies, and nowhere else:

    process    it starts one: a JVM, a browser, a command
    slow       its module analyses whole captures, or searches long: seconds a test, not milliseconds
"""

import gc
import os
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings

import dissectors
from dissectors.compiling import record

ROOT = Path(__file__).parent
STARTERS = {"spark": "fixture", "browser": "fixture", "subprocess": "module", "multiprocessing": "module"}
SLOW = (
    *("checksum/test_locate.py", "forensics/test_seeded.py", "fuzz/test_fuzz.py", "kafka/test_captures.py"),
    *("pulsar/test_captures.py", "session/test_conversations.py", "session/test_resends.py", "tls/test_sessions.py"),
    *("test_engine.py", "test_invariants.py", "test_memory.py", "test_notebooks.py", "test_plots.py"),
    *("test_python_api.py", "test_schema_misfits.py", "test_together.py", "test_workers.py"),
    *(
        f"pipelines/test_{name}.py"
        for name in (
            *("analyze", "audit", "audit_of_captures", "captures_gone", "changes", "cookbook", "dated_folders"),
            *("expire_and_compact", "export", "forecast", "forensics", "full_shares", "growing_captures"),
            *("growing_store", "host_names", "hostile_names", "joining", "messages_and_client", "one_verdict"),
            *("out_from_anywhere", "planted_secrets", "points", "positions_of_captures", "report", "report_bytes"),
            *("rows_source", "rows_stream", "selection", "shown_outputs", "spark_equals_local", "table_oracle"),
            *("tables", "transactions", "updates", "verdicts", "verdicts_of_requests", "working_folders"),
        )
    ),
)
# Profile -> examples of a property at most, however many its test asks for: each run tries others.
EXAMPLES = {"quick": 10, "usual": 20, "thorough": 1000}
for profile, most in EXAMPLES.items():
    settings.register_profile(profile, deadline=None, max_examples=min(most, 100))  # no example fails for being slow
settings.load_profile("usual")


def pytest_configure(config: pytest.Config) -> None:
    if dissectors.STATE.is_compiled and not record.is_fresh(ROOT.parent / "dissectors"):
        raise pytest.UsageError("a source has changed since it was compiled: make compile, or BROKERSCOPE_UNCOMPILED=1")
    for marker in ("process: starts a JVM, a browser or a command", "slow: takes seconds"):
        config.addinivalue_line("markers", marker)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in a background job: commands would inherit it
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ["XDG_CACHE_HOME"] = tempfile.mkdtemp(prefix="brokerscope-tests-")  # nothing is kept for the user


@pytest.hookimpl(tryfirst=True)  # before xdist reads groups from the markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    most = EXAMPLES[config.getoption("--hypothesis-profile", None) or "usual"]
    for item in items:
        if starts_a_process(item):
            item.add_marker(pytest.mark.process)
        if item.path.relative_to(ROOT).as_posix() in SLOW:
            item.add_marker(pytest.mark.slow)
        limit_examples(item, most)
        group = group_of(item)
        if group is not None:
            item.add_marker(pytest.mark.xdist_group(group))


def pytest_collection_finish() -> None:
    gc.freeze()  # what was imported and collected stays: no pass of the garbage collector looks at it again


def starts_a_process(item: pytest.Item) -> bool:
    """Whether a test asks for Spark or a browser, or its module imports what starts processes."""
    names = vars(item.getparent(pytest.Module).obj)  # type: ignore[union-attr]
    fixtures = getattr(item, "fixturenames", ())
    return any(name in (fixtures if where == "fixture" else names) for name, where in STARTERS.items())


def group_of(item: pytest.Item) -> str | None:
    """The group of a test that shares with others of its module a fixture that makes files, or a parameter of one.

    A group runs in one worker, which makes the fixture once; the groups with most tests begin first.
    """
    if item.get_closest_marker("xdist_group") is not None:
        return None
    fixtures = getattr(item, "_fixtureinfo").name2fixturedefs  # noqa: B009
    last = {name: definitions[-1] for name, definitions in fixtures.items()}
    shared = [n for n, made in last.items() if made.scope == "module" and "tmp_path_factory" in made.argnames]
    if not shared:
        return None
    indices = getattr(getattr(item, "callspec", None), "indices", {})
    return "-".join([item.path.stem, *(str(indices[name]) for name in shared if name in indices)])


def limit_examples(item: pytest.Item, most: int) -> None:
    """Limit a property that says itself how many examples it wants: that is stronger than a profile."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    own = getattr(test, "_hypothesis_internal_use_settings", None)
    if own is not None and own.max_examples > most:
        test._hypothesis_internal_use_settings = settings(own, max_examples=most)  # type: ignore[union-attr]
