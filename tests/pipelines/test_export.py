"""What captures show, in the formats of other viewers, read back by the libraries that those formats come with."""

import base64
import json
from collections import defaultdict
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.commands import SAMPLES, objects, run

CODECS, TRANSACTIONS = str(SAMPLES / "kafka-codecs.pcap"), str(SAMPLES / "kafka-transactions.pcap")
PULSAR, IGGY = str(SAMPLES / "pulsar-subscriptions.pcap"), str(SAMPLES / "iggy-messages.pcap")
CAPTURES = [CODECS, TRANSACTIONS, PULSAR, IGGY]
_IDS = ("traceId", "spanId", "parentSpanId")


def rows(query: str, *captures: str) -> list[dict[str, Any]]:
    return objects("sql", *captures, query)


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Perfetto's trace of all captures."""
    perfetto = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")
    out = tmp_path_factory.mktemp("perfetto") / "trace.pftrace"
    run("export", *CAPTURES, "-f", "perfetto", "-o", out)
    read = perfetto.Trace()
    read.ParseFromString(out.read_bytes())
    return read


@pytest.fixture(scope="module")
def spans(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """OTLP's spans of all captures, each with its resource."""
    service = pytest.importorskip("opentelemetry.proto.collector.trace.v1.trace_service_pb2")
    from google.protobuf import json_format

    out = tmp_path_factory.mktemp("otlp") / "spans.jsonl"
    run("export", *CAPTURES, "-f", "otlp", "-o", out)
    found = []
    for line in out.read_text().splitlines():
        request = json_format.ParseDict(_base64_ids(json.loads(line)), service.ExportTraceServiceRequest())
        found += [(each.resource, span) for each in request.resource_spans for span in each.scope_spans[0].spans]
    return found


def _base64_ids(value: Any) -> Any:
    """OTLP's JSON with its hexadecimal ids in base64, which protobuf's reader of JSON wants."""
    if isinstance(value, dict):
        return {
            key: base64.b64encode(bytes.fromhex(each)).decode() if key in _IDS else _base64_ids(each)
            for key, each in value.items()
        }
    return [_base64_ids(each) for each in value] if isinstance(value, list) else value


def test_a_trace_has_a_slice_for_each_request_as_long_as_it_took(trace: Any) -> None:
    events = [packet for packet in trace.packet if packet.HasField("track_event")]
    begun = {
        next(a.string_value for a in packet.track_event.debug_annotations if a.name == "exchange_id"): packet
        for packet in events
        if packet.track_event.type == packet.track_event.TYPE_SLICE_BEGIN
    }
    expected = rows("select exchange_id, epoch_us(time) as us, coalesce(total_ns, request_ns, 0) as ns from exchanges",
                    *CAPTURES)  # fmt: skip
    assert {row["exchange_id"]: row["us"] * 1000 for row in expected} == {
        name: packet.timestamp for name, packet in begun.items()
    }
    open_at: dict[int, int] = {}
    took = []
    for packet in events:
        track = packet.track_event.track_uuid
        if packet.track_event.type == packet.track_event.TYPE_SLICE_BEGIN:
            assert track not in open_at, "slices of a track overlap"
            open_at[track] = packet.timestamp
        elif packet.track_event.type == packet.track_event.TYPE_SLICE_END:
            took.append(packet.timestamp - open_at.pop(track))
    assert not open_at
    assert sorted(took) == sorted(row["ns"] for row in expected)


def test_every_track_of_a_trace_is_described_before_it_is_used(trace: Any) -> None:
    described: set[int] = set()
    for packet in trace.packet:
        if packet.HasField("track_descriptor"):
            assert packet.track_descriptor.parent_uuid in {0, *described}
            described.add(packet.track_descriptor.uuid)
        elif packet.HasField("track_event"):
            assert packet.track_event.track_uuid in described


def test_arrows_lead_from_who_brought_a_batch_to_who_fetched_it(trace: Any) -> None:
    ends: dict[int, set[str]] = defaultdict(set)
    for packet in trace.packet:
        for flow in packet.track_event.flow_ids:
            ends[flow].add(packet.track_event.name.split()[0])
    both = [names for names in ends.values() if len(names) > 1]
    assert both
    assert all(names <= {"Produce", "Fetch", "SEND", "MESSAGE"} for names in both)


def test_verdicts_are_instants_of_a_trace(trace: Any) -> None:
    instants = {
        packet.track_event.name for packet in trace.packet
        if packet.track_event.type == packet.track_event.TYPE_INSTANT
    }  # fmt: skip
    expected = rows("select kind, sentence from t_verdicts where first_time is not null", *CAPTURES)
    assert instants == {f"{row['kind']}: {row['sentence']}" for row in expected}


def test_a_request_is_a_span_of_its_client_with_one_of_the_server_inside(spans: list[Any]) -> None:
    by_id = {span.span_id: span for _, span in spans}
    assert len(by_id) == len(spans)
    inner = [span for _, span in spans if span.parent_span_id]
    assert inner
    for span in inner:
        outer = by_id[span.parent_span_id]
        assert span.trace_id == outer.trace_id
        assert outer.start_time_unix_nano <= span.start_time_unix_nano
        assert span.end_time_unix_nano <= outer.end_time_unix_nano
    answered = rows("select count(*) as n from exchanges where wait_ns is not null and request_ns is not null",
                    *CAPTURES)  # fmt: skip
    assert len(inner) == answered[0]["n"]


def test_spans_that_fetched_a_batch_are_linked_to_the_span_that_brought_it(spans: list[Any]) -> None:
    by_id = {span.span_id: span for _, span in spans}
    links = [(span, by_id[link.span_id]) for _, span in spans for link in span.links]
    assert {(span.name.split()[0], before.name.split()[0]) for span, before in links} >= {("Fetch", "Produce")}
    assert all(before.start_time_unix_nano <= span.end_time_unix_nano for span, before in links)


def test_errors_are_errors_of_spans(spans: list[Any]) -> None:
    wrong = {span.trace_id for _, span in spans if span.status.code == span.status.STATUS_CODE_ERROR}
    assert len(wrong) == rows("select count(*) as n from exchanges where status = 'error'", *CAPTURES)[0]["n"]


def test_counters_of_prometheus_end_where_the_tables_add_up(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    out = tmp_path / "night.openmetrics"
    run("export", *CAPTURES, "-f", "prometheus", "-o", out)
    families = {each.name: each for each in parser.text_string_to_metric_families(out.read_text())}
    last: dict[tuple[str, str, str], float] = {}
    for sample in families["brokerscope_messages"].samples:
        labels = sample.labels["protocol"], sample.labels["topic"], sample.labels["role"]
        assert sample.value >= last.get(labels, 0)
        last[labels] = sample.value
    expected = rows("select protocol, topic, role, sum(messages)::bigint as n from t_throughput group by all",
                    *CAPTURES)  # fmt: skip
    assert last == {(row["protocol"], row["topic"] or "", row["role"]): row["n"] for row in expected}
    quantiles = {sample.labels["quantile"] for sample in families["brokerscope_request_duration_seconds"].samples}
    assert quantiles == {"0.5", "0.9", "0.99", "0.999", "1"}


def test_samples_of_prometheus_have_times_of_the_capture(tmp_path: Path) -> None:
    parser = pytest.importorskip("prometheus_client.openmetrics.parser")
    out = tmp_path / "night.openmetrics"
    run("export", CODECS, "-f", "prometheus", "-o", out)
    [span] = rows("select min(time) as a, max(time) as b from exchanges", CODECS)
    first, last = (datetime.fromisoformat(span[name]).timestamp() for name in ("a", "b"))
    times = [
        float(sample.timestamp) for family in parser.text_string_to_metric_families(out.read_text())
        for sample in family.samples
    ]  # fmt: skip
    assert first <= min(times)
    assert max(times) <= last + 60


def test_of_a_part_only_that_part_is_written(tmp_path: Path) -> None:
    out = tmp_path / "spans.jsonl"
    run("export", *CAPTURES, "-f", "otlp", "-o", out, "--protocol", "pulsar", "-q")
    text = out.read_text()
    assert '"stringValue": "pulsar"' in text
    assert '"stringValue": "kafka"' not in text


def test_two_capture_points_give_each_request_once(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "t.pcap").write_bytes(Path(CODECS).read_bytes())
    run("export", tmp_path, "-f", "otlp", "-o", tmp_path / "both.jsonl", "-q")
    run("export", CODECS, "-f", "otlp", "-o", tmp_path / "one.jsonl", "-q")
    spans_of = [(tmp_path / name).read_text().count('"traceId"') for name in ("both.jsonl", "one.jsonl")]
    assert spans_of[0] == spans_of[1]


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    capture = tmp_path / "t.pcap"
    capture.write_bytes(Path(CODECS).read_bytes())
    assert "t.pcap" in run("export", capture, "-f", "otlp", "-o", capture, code=2)
    assert capture.read_bytes() == Path(CODECS).read_bytes()
