"""`brokerscope decode`: one frame from hex or a file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from dissectors.capture.source import STDIN, open_raw
from dissectors.errors import InputError
from dissectors.limits import Limits
from pipelines.cli import printing
from pipelines.cli.options import flag, option
from pipelines.formats import units
from pipelines.formats.grid import terminal_width
from pipelines.formats.outline import outline

PROTOCOLS = "kafka|pulsar|iggy"


def decode(
    protocol: Annotated[str, typer.Argument(metavar=PROTOCOLS, help="The protocol of the frame.")],
    file: Annotated[str | None, typer.Argument(metavar="[FILE]", help="The bytes of the frame; - is stdin.")] = None,
    hex_: Annotated[str | None, option("--hex", "HEX", "The frame in hex; spaces, colons and 0x are skipped.")] = None,
    side: Annotated[
        Literal["request", "response"] | None,
        option("--side", None, "Who sent it: the client or the broker. A request, unless --api is given."),
    ] = None,
    api: Annotated[str | None, option("--api", "NAME|CODE", "What a response of Kafka or Iggy answers.")] = None,
    version: Annotated[int | None, option("--version", "N", "The version of the API that a response answers.")] = None,
    format: Annotated[Literal["text", "json"], option("--format -f", "text|json", "Output format.")] = "text",
    quiet: Annotated[bool, flag("--quiet -q", "No notes.")] = False,
) -> None:
    """Decode one frame, given in hex or in a file: its header and its body.

    A frame of Kafka may be without its four bytes of size. A response of Kafka does not say what it answers: name that
    with --api and --version; so does an Iggy answer before VSR: --api.

    \b
    Examples:
      brokerscope decode kafka --hex '00 12 00 00 00 00 00 07 00 01 61'
      brokerscope decode kafka response.bin --api Produce --version 9
      brokerscope decode pulsar --side response frame.bin
    """
    from pipelines.answers import single_frame

    if (file is None) == (hex_ is None):
        raise typer.BadParameter("give the frame with --hex, or name one file", param_hint="FILE")
    raw = _from_hex(hex_) if hex_ is not None else _from_file(file or STDIN)
    told = single_frame.decoded(raw, protocol, side=side, api=api, version=version)
    if format == "json":
        printing.show_line(json.dumps(told))
        return
    printing.show_text(f"{told['protocol']} {told['api']}{_version(told)} {told['side']}, {units.size(told['size'])}")
    for name in single_frame.FIELDS[4:]:
        if name in told:
            value = told[name]
            printing.show_text(", ".join(value) if isinstance(value, list) else str(value), 2, f"{name:<16}")
    for problem in () if quiet else told["problems"]:
        printing.show_text(problem, 2, f"{'problem':<16}")
    print("\nbody" if told["body"] else "\nno body")
    for line in outline(told["body"] or {}, terminal_width(), 2):
        print(line)


def _version(told: dict[str, object]) -> str:
    return "" if told.get("version") is None else f" v{told['version']}"


def _from_hex(text: str) -> bytes:
    """The bytes of hex digits. Raises typer.BadParameter where they are none."""
    digits = "".join(text.lower().replace("0x", "").replace(":", "").split())
    try:
        return bytes.fromhex(digits)
    except ValueError:
        wrong = next((sign for sign in digits if sign not in "0123456789abcdef"), None)
        why = f"{wrong!r} is no hex digit" if wrong else f"{len(digits)} digits are no whole bytes"
        raise typer.BadParameter(why, param_hint="--hex") from None


def _from_file(path: str) -> bytes:
    """The bytes of a file. Raises InputError where it cannot be read, or is longer than a frame may be."""
    most = Limits().frame_bytes
    if Path(path).is_dir():
        raise InputError(f"{path}: is a folder")
    with open_raw(path) as file:
        raw = file.read(most + 1)
    if len(raw) > most:
        raise InputError(f"{path}: larger than the largest frame, {units.size(most)}")
    return raw
