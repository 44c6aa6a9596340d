"""`brokerscope schemas`: keep what a schema registry knows, so that messages can be read without it."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dissectors.errors import InputError
from pipelines.cli import exits
from pipelines.cli.options import flag, option
from pipelines.cli.output import output
from pipelines.cli.reading import exists
from pipelines.formats.units import counted


def schemas(
    action: Annotated[Literal["save"], typer.Argument(metavar="save", help="What to do.")],
    source: Annotated[
        list[str],
        typer.Argument(metavar="URL|CAPTURE…", help="A registry, or captures of the traffic with one, in clear HTTP."),
    ],
    out: Annotated[str, option("-o --output", "FILE", "Write here; - for stdout.")],
    quiet: Annotated[bool, flag("--quiet -q", "Do not say how many there are.")] = False,
) -> None:
    """Save the schemas of a registry, or of traffic with one, to a file, for --schemas of `dissect`, `show` and `sql`.

    The registry speaks the API of Confluent's, as Karapace, Redpanda and Apicurio do, too. Credentials may stand in URL
    (http://user:password@registry:8081); they go to that host alone and into no output.

    \b
    Examples:
      brokerscope schemas save http://registry:8081 -o registry.json
      brokerscope schemas save captures/ -o registry.json
      brokerscope dissect capture.pcap -t messages --payloads --schemas registry.json
    """
    from dissectors.capture import expand
    from pipelines.payloads import registry, registry_traffic

    is_registry = len(source) == 1 and source[0].startswith(("http://", "https://")) and not exists(source[0])
    saved = registry.fetched(source[0]) if is_registry else registry_traffic.told_in(expand(source))
    if not saved:
        raise InputError(f"{', '.join(source)}: no schemas in there")
    with output(out) as stream:
        stream.write(registry.text(saved))
    if not quiet:
        exits.say(f"brokerscope: {counted(len(saved), 'schema')} saved")
