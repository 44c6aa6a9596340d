"""What all commands share: options, messages, exit codes."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, TypeVar

import typer

from dissectors.errors import BrokerscopeError
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES

if TYPE_CHECKING:
    from dissectors.engine import Run

DONE, BAD_CHECKSUMS, WRONG_USAGE, UNREADABLE = 0, 1, 2, 3

# --- options that several commands take ------------------------------------------------------------------------------

Captures = Annotated[
    list[str],
    typer.Argument(
        metavar="CAPTURE…", help="Files, folders or globs; local paths or any URL that fsspec opens; - is stdin."
    ),
]
DecodeAs = Annotated[
    list[str] | None,
    typer.Option("--decode-as", metavar="PORT=PROTOCOL", help="Take this server port as kafka, pulsar or iggy."),
]
Keylog = Annotated[
    str | None, typer.Option("--keylog", metavar="FILE", help="TLS secrets in NSS key log format (SSLKEYLOGFILE).")
]
IggyEra = Annotated[
    str | None, typer.Option("--iggy-era", metavar="ERA", help="Take this wire era for every Iggy connection.")
]
Site = Annotated[
    str,
    typer.Option(
        "--site", metavar="folder|file|REGEX", help="What names the capture point: connections never merge across two."
    ),
]
Limit = Annotated[
    list[str] | None,
    typer.Option("--limit", metavar="NAME=VALUE", help="Change a limit, for example frame_bytes=64M. May be repeated."),
]
Out = Annotated[str | None, typer.Option("-o", "--output", metavar="FILE", help="Write here, not to stdout.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar and no notes.")]

PROTOCOLS = ("kafka", "pulsar", "iggy")
_SUFFIXES = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}


def options(
    *,
    site: str,
    decode_as: Sequence[str] | None,
    keylog: str | None,
    limit: Sequence[str] | None,
    iggy_era: str | None = None,
    tables: tuple[str, ...] = DEFAULT_TABLES,
    full: bool = False,
    payloads: bool = False,
) -> Options:
    """What the options of a command line ask of the engine. Raises typer.BadParameter where one means nothing."""
    return Options(
        tables=tables,
        full=full,
        payloads=payloads,
        site=_site(site),
        decode_as=_ports(decode_as),
        keylog=keylog,
        iggy_era=iggy_era,
        limits=_limits(limit),
    )


def _ports(pairs: Sequence[str] | None) -> dict[int, str]:
    """`9092=kafka` -> {9092: "kafka"}."""
    wanted = {}
    for pair in pairs or ():
        port, _, protocol = pair.partition("=")
        if not port.isdigit() or not 0 < int(port) < 65536 or protocol.lower() not in PROTOCOLS:
            raise typer.BadParameter(f"{pair!r} is not PORT={'|'.join(PROTOCOLS)}", param_hint="--decode-as")
        wanted[int(port)] = protocol.lower()
    return wanted


def _limits(pairs: Sequence[str] | None) -> Limits:
    """`frame_bytes=64M` -> Limits."""
    from dataclasses import fields, replace

    names = {field.name for field in fields(Limits)}
    changed = {}
    for pair in pairs or ():
        name, _, value = pair.partition("=")
        number = re.fullmatch(r"(\d+)([kmg]?)(?:i?b)?", value.lower())
        if name not in names or number is None:
            known = ", ".join(sorted(names))
            raise typer.BadParameter(f"{pair!r} is not NAME=VALUE; names are {known}", param_hint="--limit")
        changed[name] = int(number[1]) * _SUFFIXES[number[2]]
    return replace(Limits(), **changed)


def _site(rule: str) -> str:
    """`--site` as it is, if it means something."""
    try:
        re.compile(rule)
    except re.error as error:
        raise typer.BadParameter(f"{rule!r} is no regular expression: {error}", param_hint="--site") from None
    return rule


# --- messages and exit codes -----------------------------------------------------------------------------------------

Command = TypeVar("Command", bound=Callable[..., Any])


def say(text: str) -> None:
    """One line to stderr."""
    print(text, file=sys.stderr)


def _drop_output() -> None:
    """What still waits to be written goes nowhere: the interpreter flushes once more at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def guarded(command: Command) -> Command:
    """Run a command: what the user can act on becomes one line and exit code 3; a reader that left is no error."""

    @functools.wraps(command)
    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return command(*args, **kwargs)
        except BrokerscopeError as error:
            say(f"brokerscope: {error}")
            raise typer.Exit(UNREADABLE) from None
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(DONE) from None
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO):
                raise
            _drop_output()
            say(f"brokerscope: cannot write: {error.strerror}")
            raise typer.Exit(UNREADABLE) from None

    return run  # type: ignore[return-value]


def tell_problems(run: Run, quiet: bool) -> None:
    """Say which inputs were not read whole. One that could not be read at all: exit code 3."""
    readable = {reader.path for reader in run.readers}
    for path, message in run.problems:
        if path not in readable or not quiet:
            say(f"brokerscope: {message}")
    if any(path not in readable for path, _ in run.problems):
        raise typer.Exit(UNREADABLE)


@contextlib.contextmanager
def output(path: str | None, *, binary: bool = False) -> Iterator[BinaryIO]:
    """The file to write to, or stdout. A file that was not finished does not stay."""
    if path is None or path == "-":
        if binary and sys.stdout.isatty():
            raise typer.BadParameter("this format is not for a terminal: name a file", param_hint="-o")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    try:
        file = open(path, "wb")  # noqa: PTH123, SIM115 - closed below, and kept only if all went well
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint="-o") from None
    try:
        with file:
            yield file
    except BaseException:
        if os.path.isfile(path):  # noqa: PTH113 - not a device
            os.unlink(path)  # noqa: PTH108
        raise
