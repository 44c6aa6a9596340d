"""How a command ends: exit codes, and one line to stderr for whatever a user can act on."""

from __future__ import annotations

import atexit
import codecs
import contextlib
import io
import os
import re
import signal
import sys
from collections.abc import Iterator
from typing import Any, NoReturn

import typer
from typer.core import TyperGroup

from dissectors.errors import BrokerscopeError, InputError, UsageError
from dissectors.redaction import public_path
from dissectors.wording import did_you_mean
from pipelines.storage import outputs

DONE, BAD_CHECKSUMS, WRONG_USAGE, UNREADABLE, NOTHING_MADE = range(5)
NOT_DELIVERED = BAD_CHECKSUMS  # what a check of the data itself found: forensics, audit and upgrade
DEFECT, INTERRUPTED, TERMINATED = 70, 130, 143
MEANINGS = {
    DONE: "done",
    BAD_CHECKSUMS: "bad checksums found (forensics), acknowledged messages not delivered (audit), or something breaks "
    "(upgrade)",
    WRONG_USAGE: "wrong usage",
    UNREADABLE: "an input could not be read (the others were) or an output not be written",
    NOTHING_MADE: "nothing was made (Spark failed, another run writes OUT, the disk or the memory is full)",
    DEFECT: "an error in brokerscope itself",
    INTERRUPTED: "interrupted",
    TERMINATED: "terminated",
}
_CODES: tuple[tuple[type[Exception], int], ...] = (
    (UsageError, WRONG_USAGE),
    (InputError, UNREADABLE),
    (outputs.OutputError, UNREADABLE),
    (BrokerscopeError, NOTHING_MADE),
)
"""What a user can act on -> its exit code; the first that fits counts."""
_NONE_OF = re.compile(r"(?P<word>'[^']*') is not one of (?P<known>'.*')\.?$", re.S)  # as the parser has it
_SPELLED = "brokerscope.spelled"
_IN_ASCII = str.maketrans({"→": ">", "←": "<", "×": "x", "µ": "u", "…": "..."})
_AS_THEY_ARE = ("utf-8", "surrogateescape")  # a stdout that takes any text
_stopped: list[int] = []  # exit codes of the signals that came, whatever became of what their handlers raised
_reached: list[str] = []  # how far the reading of captures has come, as words; the last counts
DEBUG = "BROKERSCOPE_DEBUG"  # set: an error in brokerscope itself shows its traceback


def say(text: str) -> None:
    """One line to stderr, whatever the text holds."""
    from pipelines.formats.plain import clean

    with contextlib.suppress(OSError, ValueError, AttributeError):  # nobody listens
        print(clean(public_path(text)).encode("utf-8", "backslashreplace").decode(), file=sys.stderr)


def interruption() -> str:
    """What is said of a command that was stopped: how far it had come, as far as that is known."""
    how = "terminated" if TERMINATED in _stopped else "interrupted"
    return f"{how}{' '.join(['', *_reached[-1:]])}, before the answer was whole; files that -o names are as they were"


def reached(how_far: str) -> None:
    """Keep how far a command has come that is being stopped, in words: `after 12 of 600 MB`."""
    _reached.append(how_far)


class CommandGroup(TyperGroup):
    """The commands. Every error becomes one line and an exit code."""

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run a command and end the process."""
        kwargs["standalone_mode"] = False
        if isinstance(sys.stdout, io.TextIOWrapper) and (sys.stdout.encoding, sys.stdout.errors) != _AS_THEY_ARE:
            codecs.register_error(_SPELLED, _spelled)
            sys.stdout.reconfigure(errors=_SPELLED)  # a locale without µ, or a file name of no encoding
        code = DONE
        try:
            code = super().main(*args, **kwargs) or DONE
            if _stopped and code == _stopped[0]:  # the parser makes a code of an interrupt
                say(f"brokerscope: {interruption()}")
        except Exception as error:
            _drop_output()
            if _stopped:  # DuckDB, and imports that fail, make another error of a signal
                say(f"brokerscope: {interruption()}")
                sys.exit(_stopped[0])
            code, text = _meaning(error)
            say(f"brokerscope: {text}")
        except SystemExit as end:
            if _stopped and end.code == _stopped[0]:
                say(f"brokerscope: {interruption()}")
            raise
        except KeyboardInterrupt:
            _drop_output()
            say(f"brokerscope: {interruption()}")
            code = INTERRUPTED
        sys.exit(code)

    def invoke(self, ctx: Any) -> Any:
        """Run a command. A reader that has seen enough is no error."""
        try:
            made = super().invoke(ctx)
            if sys.stdout is not None and not sys.stdout.closed:
                sys.stdout.flush()
        except BrokenPipeError:
            _drop_output()
            raise typer.Exit(DONE) from None
        return made


def _meaning(error: Exception) -> tuple[int, str]:
    """(exit code, one sentence) of what ended a command."""
    usage = getattr(error, "format_message", None)
    if usage is not None:  # what the parser of the command line raises
        where = getattr(error, "ctx", None)
        return WRONG_USAGE, f"{_with_nearest(usage())}{f' ({where.command_path} --help)' if where else ''}"
    for kind, code in _CODES:
        if isinstance(error, kind):
            return NOTHING_MADE if outputs.is_full(error) else code, str(error)
    if isinstance(error, MemoryError):
        return NOTHING_MADE, "out of memory: --limit memory_bytes=… bounds what is kept"
    if type(error).__name__ == "OutOfMemoryException":  # DuckDB's, which need not be loaded here
        return NOTHING_MADE, "out of memory: a query over the records needs more than it may take"
    if isinstance(error, OSError) and error.errno in outputs.UNWRITABLE:
        return NOTHING_MADE if outputs.is_full(error) else UNREADABLE, f"cannot write: {outputs.reason(error)}"
    if os.environ.get(DEBUG):
        raise error
    return DEFECT, f"an error of its own: {type(error).__name__}: {error} ({DEBUG}=1 shows where)"


def _with_nearest(text: str) -> str:
    """What the parser says against a word; of a word that is none of several, the one that was probably meant."""
    match = _NONE_OF.search(text)
    if match is None:
        return text
    known = re.findall(r"'([^']*)'", match["known"])
    return f"{text[: match.start()]}no {match['word']}; {did_you_mean(match['word'].strip(chr(39)), known)}"


def _spelled(error: UnicodeError) -> tuple[str | bytes, int]:
    """Our own signs in ASCII, anything else as an escape, where an encoding lacks them."""
    if isinstance(error, UnicodeEncodeError):
        plain = error.object[error.start : error.end].translate(_IN_ASCII)
        return plain.encode("ascii", "backslashreplace").decode("ascii"), error.end
    return codecs.backslashreplace_errors(error)


def _drop_output() -> None:
    """What still waits to be written goes nowhere: the interpreter flushes once more at exit."""
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextlib.contextmanager
def termination() -> Iterator[None]:
    """SIGTERM ends the command as an interrupt does: outputs that are not whole go away."""

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_IGN)
        _stopped.append(TERMINATED)
        if "pyspark" in sys.modules:
            from pipelines.spark import session

            session.give_up()
        raise SystemExit(TERMINATED)

    def interrupt(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)  # the next one ends also what does not listen: a query may not
        _stopped.append(INTERRUPTED)
        raise KeyboardInterrupt

    handlers = {signal.SIGTERM: stop}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where nohup and the like ignore it
        handlers[signal.SIGINT] = interrupt
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        _stopped.clear()
        _reached.clear()


def leave(end: SystemExit) -> NoReturn:
    """End the process without taking its objects apart one by one, which would cost a tenth of a large run."""
    if not isinstance(end.code, int):
        raise end
    if "pyspark" in sys.modules:
        atexit._run_exitfuncs()  # Spark's folders; its Java ends by itself, as its standard input closes
    with contextlib.suppress(OSError, ValueError):
        for stream in filter(None, (sys.stdout, sys.stderr)):  # None where it was closed from the start
            stream.flush()
    os._exit(end.code)
