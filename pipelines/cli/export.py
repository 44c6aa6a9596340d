"""`brokerscope export`: what captures show, for viewers of traces and metrics."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from pipelines.cli.options import option
from pipelines.cli.output import OutFile, output
from pipelines.cli.reading import AskedPart, Captures, Reading, reads_captures

if TYPE_CHECKING:
    from typing import BinaryIO

    from pipelines.answers.records import Relations

Viewer = Literal["perfetto", "otlp", "prometheus"]
_LIBRARIES = {"perfetto": "perfetto", "prometheus": "prometheus_client"}  # of the extra `export`


@reads_captures
def export(
    captures: Captures,
    reading: Reading,
    part: AskedPart,
    format: Annotated[Viewer, option("--format -f", "perfetto|otlp|prometheus", "For which viewer.")],
    out: OutFile = None,
) -> None:
    """Write what captures show for other viewers. CAPTURE may be a folder that `analyze` wrote.

    perfetto: a trace for ui.perfetto.dev: clients and connections as tracks, requests as slices with their sizes,
    durations and errors, arrows from the request that brought a batch to those that fetched it, verdicts as instants.

    otlp: spans in OTLP's JSON, a line for up to 512 requests, as OpenTelemetry's file exporter writes them: a span of
    the client and one of the server each, linked from who fetched a batch to who brought it.

    prometheus: tables along time as OpenMetrics text, each sample with its time: messages, bytes, requests, errors,
    percentiles of durations, lag. `promtool tsdb create-blocks-from openmetrics` reads it in.

    \b
    Examples:
      brokerscope export capture.pcap -f perfetto -o capture.pftrace
      brokerscope export out --since 02:10 --until 02:20 -f otlp -o spans.jsonl
      brokerscope export out -f prometheus -o night.openmetrics
    """
    library = _LIBRARIES.get(format)
    if library is not None and find_spec(library) is None:
        raise typer.BadParameter(
            f"{format} needs the package {library.replace('_', '-')}: pip install 'brokerscope[export]'",
            param_hint="--format",
        )
    from pipelines.answers.export import requests
    from pipelines.storage.layout import refuse_read_back, single_analysis
    from pipelines.tables.table import RECORDS

    if out is not None and single_analysis(captures):
        refuse_read_back(out, captures[0])
    needed = {"otlp": requests.TABLES, "perfetto": (*RECORDS, "messages"), "prometheus": RECORDS}[format]
    selection = part.selection
    with (
        reading.records(captures, needed, part=selection) as found,
        output(out, reading.inputs(captures), binary=format == "perfetto") as stream,
    ):
        if format == "prometheus":
            _write_metrics(found, selection.cut, stream)
        else:
            _write_requests(reading, found, format, selection.cut, stream)


def _write_metrics(found: Relations, cut: str, stream: BinaryIO) -> None:
    from pipelines.answers import aggregates
    from pipelines.answers.export import prometheus

    made = aggregates.made(found, [f"{aggregates.PREFIX}{name}" for name in prometheus.TABLES], cut)
    prometheus.write({name.removeprefix(aggregates.PREFIX): table for name, table in made.items()}, stream)


def _write_requests(reading: Reading, found: Relations, format: Viewer, cut: str, stream: BinaryIO) -> None:
    from pipelines.answers.export import requests
    from pipelines.answers.records import database_of, empty

    counted = {name: rows for name, rows in found.items() if name != "messages"}  # which exchanges bring, however often
    with reading.counted_once(counted) as once, database_of({**once, "messages": found["messages"]}) as connection:
        if format == "otlp":
            from pipelines.answers.export import otlp

            otlp.write(requests.requests(connection), stream)
            return
        from pipelines.answers.export import perfetto
        from pipelines.tables.verdicts.engine import judged

        verdicts = judged(connection, empty(once), cut).verdicts.to_pylist()
        perfetto.write(requests.requests(connection), verdicts, stream)
