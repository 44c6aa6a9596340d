"""`brokerscope schemas`: keep what a schema registry knows, so that messages can be read without it."""

from __future__ import annotations

from typing import Annotated

import typer

from pipelines.cli import exits
from pipelines.cli.output import output
from pipelines.formats.units import counted


def schemas(
    url: Annotated[
        str, typer.Argument(metavar="URL", help="A registry: http://registry:8081, http://apicurio/apis/ccompat/v7.")
    ],
    out: Annotated[str, typer.Option("-o", "--output", metavar="FILE", help="Write here; - for stdout.")],
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not say how many there are.")] = False,
) -> None:
    """Save the schemas of a registry to a file, for --schemas of `dissect`, `show` and `sql`.

    The registry speaks the API of Confluent's, as Karapace, Redpanda and Apicurio do, too. Credentials may stand in URL
    (http://user:password@registry:8081); they go to that host alone and into no output.

    \b
    Examples:
      brokerscope schemas http://registry:8081 -o registry.json
      brokerscope dissect capture.pcap -t messages --payloads --schemas registry.json
    """
    from pipelines.payloads import registry

    saved = registry.fetched(url)
    with output(out) as stream:
        stream.write(registry.text(saved))
    if not quiet:
        exits.say(f"brokerscope: {counted(len(saved), 'schema')} saved")
