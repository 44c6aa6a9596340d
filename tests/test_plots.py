"""Pictures from Python: which lines they have, and in which units."""

import sys
from pathlib import Path
from typing import Any

import pytest

import brokerscope

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def cap() -> brokerscope.OpenCapture:
    return brokerscope.open(ROOT / "samples" / "kafka-refused.pcap")


@pytest.fixture(autouse=True)
def without_a_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPLBACKEND", "agg")


def lines(axes: Any) -> dict[str, list[float]]:
    """Label -> values of a picture of matplotlib."""
    return {line.get_label(): list(line.get_ydata()) for line in axes.get_lines()}


def test_the_slowest_of_each_interval_are_what_the_table_holds(cap: brokerscope.OpenCapture) -> None:
    pytest.importorskip("matplotlib")
    drawn = lines(cap.plot.latency(by="api", every="1min", of="max"))
    longest = {row.key: row.max_ns / 1e6 for row in cap.top(by="api") if row.max_ns is not None}
    assert {label: max(values) for label, values in drawn.items()}.items() <= longest.items()
    assert len(drawn) == min(12, len(longest))


def test_rates_add_up_to_the_requests(cap: brokerscope.OpenCapture) -> None:
    pytest.importorskip("matplotlib")
    axes = cap.plot.requests(by="broker", every="100ms")
    assert axes.get_ylabel() == "requests per second"
    (rates,) = lines(axes).values()
    assert round(sum(rates) / 10) == len(cap.exchanges)


def test_failed_requests_have_lines_of_their_own(cap: brokerscope.OpenCapture) -> None:
    pytest.importorskip("matplotlib")
    failed = {row.key: row.errors + row.unanswered for row in cap.top(by="client")}
    assert {label: sum(values) for label, values in lines(cap.plot.errors(by="client")).items()} == failed


def test_lag_is_drawn_for_each_group_and_partition() -> None:
    pytest.importorskip("matplotlib")
    with brokerscope.open(ROOT / "samples" / "pulsar-subscriptions.pcap") as cap:
        drawn = lines(cap.plot.lag())
        assert drawn
        group = next(iter(drawn)).partition(":")[0]
        assert all(label.startswith(f"{group}: ") for label in lines(cap.plot.lag(group, of="age")))


def test_altair_draws_where_only_that_is_installed(
    cap: brokerscope.OpenCapture, monkeypatch: pytest.MonkeyPatch
) -> None:
    altair = pytest.importorskip("altair")
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    chart = cap.plot.latency(every="1s")
    assert isinstance(chart, altair.Chart)
    rows = chart.to_dict()["data"]["values"]
    assert {row["label"] for row in rows} <= {row.key for row in cap.top(by="api")}
    assert isinstance(cap.exchanges.plot(), altair.Chart)


@pytest.mark.parametrize(
    ("question", "says"),
    [
        (lambda plot: plot.latency(by="color"), "by: no 'color'; there are topic, client"),
        (lambda plot: plot.latency(every="often"), "every: 'often' is not a time such as"),
        (lambda plot: plot.latency(of="p98"), "of: no 'p98'; did you mean p99?"),
        (lambda plot: plot.lag("nobody"), "group: no 'nobody'"),
    ],
)
def test_what_means_nothing_is_said(cap: brokerscope.OpenCapture, question: Any, says: str) -> None:
    with pytest.raises(brokerscope.UsageError, match=says):
        question(cap.plot)


def test_answers_show_themselves_as_tables(cap: brokerscope.OpenCapture) -> None:
    verdicts = cap.verdicts()
    assert verdicts[0].sentence in verdicts._repr_html_().replace("&#x27;", "'")
    assert cap.top(by="api")._repr_html_().count("<tr>") == len(cap.top(by="api")) + 1
