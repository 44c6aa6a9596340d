"""How long the brokers take, per API; and the same along time, and as a distribution."""

from __future__ import annotations

from pipelines.sql.words import HELD, SERVICE_NS
from pipelines.tables.dialect import LARGEST_DOUBLE, Dialect, double
from pipelines.tables.table import (
    Ask,
    Table,
    TableColumn,
    alike,
    bucket,
    by_columns,
    count_if,
    derived,
    quantile_columns,
    quantiles,
)

BINS_PER_DECADE = 5  # of the distribution: each bin is 1.58 times as wide as the one before
DURATIONS = ("total", "wait", "service")

# Requests that the protocol answers. What a broker needs for one begins when the answers before it have gone out.
_PAIRS = f"""
    select *, {HELD} as held, {SERVICE_NS} as service_ns
    from exchanges where kind in ('call', 'unanswered')
"""


def _latency(d: Dialect, ask: Ask) -> str:
    key = ("protocol", "api", "long_poll", *ask.by)
    keys = ", ".join(key)
    longest = ", ".join(f"max({name}_ns) as {name}_max_ns" for name in DURATIONS)
    percentiles = ", ".join(f"{quantiles(name)}, {name}_max_ns" for name in DURATIONS)
    return f"""
        with pairs as (
            select protocol, api, held as long_poll{_plain_keys(ask)}{derived(d, ask)}, kind, status, retransmitted,
                total_ns, wait_ns, service_ns, queued_ns, request_bytes, response_bytes
            from ({_PAIRS})
        ), measured as (
            select {keys}, {_counts(d)}, count(total_ns) as timed, {d.total("total_ns")} as total_sum_ns,
                {d.total("service_ns")} as service_sum_ns, {d.total("queued_ns")} as queued_sum_ns,
                {count_if("retransmitted")} as retransmitted, {longest}
            from pairs group by {keys}
        ), spread as (
            {d.percentiles("pairs", key, {name: f"{name}_ns" for name in DURATIONS})}
        )
        select {", ".join(f"m.{name}" for name in key)}, count, unanswered, errors, timed, service_sum_ns,
            queued_sum_ns, total_sum_ns,
            cast(floor(total_sum_ns / nullif(timed, 0)) as bigint) as total_mean_ns,
            {percentiles}, request_bytes, response_bytes, retransmitted
        from measured m left join spread s on {alike(key, "m", "s")}
    """


def _plain_keys(ask: Ask) -> str:
    """The keys of `--by` that are columns of exchanges."""
    return "".join(f", {name}" for name in ask.by if name in ("version", "site", "dialect"))


def _activity(d: Dialect, ask: Ask) -> str:
    key, seconds = ("protocol", "bucket"), double(ask.bucket_us / 1_000_000)
    return f"""
        with pairs as (
            select *, {bucket(d, "time", ask.bucket_us)} as bucket, case when not held then total_ns end as asked_ns
            from ({_PAIRS})
        ), measured as (
            select protocol, bucket, {_counts(d)}, max(asked_ns) as total_max_ns from pairs group by protocol, bucket
        ), spread as (
            {d.percentiles("pairs", key, {"total": "asked_ns"})}
        )
        select m.protocol, m.bucket, {seconds} as bucket_s, count, unanswered, errors, count / {seconds} as rate,
            {quantiles("total")}, total_max_ns, request_bytes, response_bytes
        from measured m left join spread s on {alike(key, "m", "s")}
    """


def _distribution(d: Dialect, ask: Ask) -> str:
    def edge(bin: str) -> str:
        return f"cast(floor(least(power(10e0, ({bin}) / {double(BINS_PER_DECADE)}), {LARGEST_DOUBLE})) as bigint)"

    return f"""
        with counted as (
            select protocol, api, held as long_poll,
                cast(floor(log10(total_ns) * {BINS_PER_DECADE}) as int) as bin, count(*) as count
            from ({_PAIRS}) where total_ns > 0 group by 1, 2, 3, 4
        )
        select protocol, api, long_poll, {edge("bin")} as from_ns, {edge("bin + 1")} as to_ns, count from counted
    """


def _counts(d: Dialect) -> str:
    return f"""
        {count_if("kind = 'call'")} as count, {count_if("kind = 'unanswered'")} as unanswered,
        {count_if("status = 'error'")} as errors,
        {d.total("request_bytes")} as request_bytes, {d.total("response_bytes")} as response_bytes"""


_KEYS = (
    TableColumn("protocol", "kafka, pulsar or iggy"),
    TableColumn("api", "the protocol's own name"),
    TableColumn(
        "long_poll",
        "the broker waited on purpose: for data, as the request allowed, or for the other members of a group "
        "(JoinGroup, SyncGroup); these are apart from all others",
    ),
)
_COUNTS = (
    TableColumn("count", "requests that were answered", "count"),
    TableColumn("unanswered", "requests whose answer is not in the capture", "count"),
    TableColumn("errors", "answers that hold an error", "count"),
)

LATENCY = Table(
    "latency",
    "How long requests took: one row per API, long polls and waits for a group apart; what cost the brokers most comes "
    "first. `total` runs from the first byte of the request to the last byte of the answer, `wait` from the last byte "
    "of the request to the first byte of the answer; `service` is `wait` without the time for which the request waited "
    "behind others on its connection (`queued`): what the broker needed for it.",
    (
        *_KEYS,
        *_COUNTS,
        TableColumn("timed", "answered requests whose total is known: the capture lacks no bytes of them", "count"),
        TableColumn("service_sum_ns", "time that brokers spent on all of them: what this API costs them", "ns"),
        TableColumn("queued_sum_ns", "time for which they waited behind others on their connections", "ns"),
        TableColumn("total_sum_ns", "time spent in all of them together: what this API costs its clients", "ns"),
        TableColumn("total_mean_ns", "total, mean", "ns"),
        *(
            column
            for name in DURATIONS
            for column in (*quantile_columns(f"{name}_", name), TableColumn(f"{name}_max_ns", f"{name}, longest", "ns"))
        ),
        TableColumn("request_bytes", "bytes of requests", "bytes"),
        TableColumn("response_bytes", "bytes of answers", "bytes"),
        TableColumn("retransmitted", "exchanges of which a byte was sent twice", "count"),
    ),
    _latency,
    headline=(
        "protocol", "api", "long_poll", "count", "unanswered", "errors", "service_sum_ns", "service_p50_ns",
        "service_p99_ns", "service_max_ns", "wait_p99_ns", "total_p50_ns", "total_p99_ns", "total_max_ns",
    ),
    order=("long_poll", "service_sum_ns desc", "protocol", "api"),
    extra=by_columns,
)  # fmt: skip

ACTIVITY = Table(
    "activity",
    "Requests along time: one row per protocol and time bucket. Durations leave long polls out.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("bucket", "start of the time bucket", "time"),
        TableColumn("bucket_s", "its width in seconds", "ratio"),
        *_COUNTS,
        TableColumn("rate", "answered requests per second", "1/s"),
        *quantile_columns("total_", "total"),
        TableColumn("total_max_ns", "total, longest", "ns"),
        TableColumn("request_bytes", "bytes of requests", "bytes"),
        TableColumn("response_bytes", "bytes of answers", "bytes"),
    ),
    _activity,
    headline=("protocol", "bucket", "count", "rate", "errors", "total_p50_ns", "total_p99_ns", "total_max_ns"),
    order=("protocol", "bucket"),
)

DISTRIBUTION = Table(
    "distribution",
    f"How durations are spread: requests per API and bin of `total_ns`, {BINS_PER_DECADE} bins a decade.",
    (
        *_KEYS,
        TableColumn("from_ns", "lower edge of the bin", "ns"),
        TableColumn("to_ns", "upper edge of the bin", "ns"),
        TableColumn("count", "requests in it", "count"),
    ),
    _distribution,
    headline=("protocol", "api", "long_poll", "from_ns", "to_ns", "count"),
    order=("protocol", "api", "long_poll", "from_ns"),
)
