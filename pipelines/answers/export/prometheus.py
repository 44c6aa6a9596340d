"""Aggregate tables that have buckets of time as OpenMetrics text, which Prometheus and others read in with its times.

Sums are counters that go on from bucket to bucket, so that rate() works; the rest are gauges. A sample stands at the
end of its bucket. Format: OpenMetrics 1.0.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import IO, Any, NamedTuple

import pyarrow as pa
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import Collector, CollectorRegistry

_NS = 1e9


class _Family(NamedTuple):
    """A metric: a column of a table, by the labels that others give."""

    name: str
    help: str
    table: str
    column: str
    labels: tuple[str, ...]
    is_counter: bool = True
    per: float = 1  # the column has so many for one of the metric
    also: Mapping[str, str] = {}  # labels with one value: a quantile


_TOPIC = ("protocol", "topic", "role")
_FAMILIES = (
    _Family("brokerscope_messages", "Messages", "throughput", "messages", _TOPIC),
    _Family("brokerscope_stored_bytes", "Bytes of batches as sent", "throughput", "stored_bytes", _TOPIC),
    _Family("brokerscope_refused_batches", "Batches that a broker refused", "throughput", "refused", _TOPIC),
    _Family("brokerscope_requests", "Requests", "activity", "count", ("protocol",)),
    _Family("brokerscope_request_errors", "Requests answered with an error", "activity", "errors", ("protocol",)),
    _Family("brokerscope_unanswered_requests", "Requests without an answer", "activity", "unanswered", ("protocol",)),
    _Family("brokerscope_request_bytes", "Bytes of requests", "activity", "request_bytes", ("protocol",)),
    _Family("brokerscope_response_bytes", "Bytes of answers", "activity", "response_bytes", ("protocol",)),
    *(
        _Family(
            "brokerscope_request_duration_seconds", "From a request's first byte to its answer's last", "activity",
            f"total_{column}_ns", ("protocol",), is_counter=False, per=_NS, also={"quantile": quantile},
        )
        for column, quantile in (("p50", "0.5"), ("p90", "0.9"), ("p99", "0.99"), ("p999", "0.999"), ("max", "1"))
    ),
    _Family(
        "brokerscope_lag_messages", "Messages that a group has yet to read", "lag", "messages",
        ("protocol", "group", "topic", "partition"), is_counter=False,
    ),
    _Family(
        "brokerscope_lag_seconds", "Age of the message that a group reads next", "lag", "lag_ns",
        ("protocol", "group", "topic", "partition"), is_counter=False, per=_NS,
    ),
)  # fmt: skip
TABLES = tuple(dict.fromkeys(family.table for family in _FAMILIES))
"""The aggregate tables that are needed."""


def write(tables: Mapping[str, pa.Table], stream: IO[bytes]) -> None:
    """Write all metrics. tables: those of TABLES, by their names."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Tables({name: table.to_pylist() for name, table in tables.items()}))
    stream.write(generate_latest(registry))  # type: ignore[no-untyped-call]


class _Tables(Collector):
    """Gives the rows of tables as metrics."""

    def __init__(self, rows: Mapping[str, list[dict[str, Any]]]) -> None:
        self._rows = rows

    def collect(self) -> Iterator[Metric]:
        """Every metric, with all of its samples."""
        made: dict[str, Metric] = {}
        for family in _FAMILIES:
            labels = (*family.labels, *family.also)
            kind = CounterMetricFamily if family.is_counter else GaugeMetricFamily
            metric = made.setdefault(family.name, kind(family.name, family.help, labels=labels))
            for values, samples in sorted(_series(family, self._rows[family.table]).items()):
                for at, number in samples:
                    metric.add_metric([*values, *family.also.values()], number, timestamp=at)  # type: ignore[attr-defined]
        return iter(made.values())


def _series(family: _Family, rows: list[dict[str, Any]]) -> dict[tuple[str, ...], list[tuple[float, float]]]:
    """Values of labels -> (time in seconds, number) of each bucket, in the order of time."""
    found: dict[tuple[str, ...], dict[float, float]] = defaultdict(lambda: defaultdict(float))
    for row in rows:
        value, bucket = row[family.column], row["bucket"]
        if value is None or not isinstance(bucket, datetime):
            continue
        labels = tuple("" if row[name] is None else str(row[name]) for name in family.labels)
        at = round(bucket.timestamp() + (row.get("bucket_s") or 0), 3)
        if family.is_counter:
            found[labels][at] += value / family.per
        else:
            found[labels][at] = value / family.per
    if not family.is_counter:
        return {labels: sorted(samples.items()) for labels, samples in found.items()}
    return {labels: list(_summed(sorted(samples.items()))) for labels, samples in found.items()}


def _summed(samples: list[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    """Each number with all before it."""
    total = 0.0
    for at, number in samples:
        total += number
        yield at, total
