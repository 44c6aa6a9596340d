"""The prompt of `brokerscope sql`: queries of several lines, history, completion, and the tables that there are."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

PROMPT, CONTINUED = "sql> ", "...> "
LEAVING = frozenset({"exit", "quit", "\\q", ".quit", ".exit"})
HISTORY = 1000  # lines that are kept
LISTING = frozenset({".tables", "\\d", "\\dt", "\\d+"})
HELPING = frozenset({"help", ".help", "\\?", "\\h", "?"})
_HELP = (
    "A query ends with ; or an empty line. .tables lists tables, .tables NAME their columns. "
    "Ctrl-C drops what was typed, Ctrl-D ends."
)


def queries(tables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    """Queries as they are typed, or come from a pipe, one a line. tables: name -> columns."""
    if not sys.stdin.isatty():
        yield from filter(None, map(str.strip, sys.stdin))
        return
    print(f"Tables: {', '.join(tables)}. {_HELP}")
    with _history(tables):
        yield from _typed(tables)


def _typed(tables: Mapping[str, Sequence[str]]) -> Iterator[str]:
    lines: list[str] = []
    while True:
        try:
            line = _line(CONTINUED if lines else PROMPT)
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            lines = []
            continue
        if not lines and line.strip() in LEAVING:
            return
        command, *names = line.split() if not lines and line.strip() else ("",)
        if command in LISTING:
            _show(tables, [name for name in (each.rstrip(";") for each in names) if name])
            continue
        if command.lower().removesuffix(";") in HELPING and not names:
            print(_HELP)
            continue
        if line:
            lines.append(line)
        if lines and (not line or line.endswith(";")):
            yield "\n".join(lines)
            lines = []


def _line(prompt: str) -> str:
    """A line as it is typed. Raises EOFError at the end, KeyboardInterrupt on Ctrl-C, which ends only this line."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return input(prompt).rstrip()
    finally:
        signal.signal(signal.SIGINT, before)


def _show(tables: Mapping[str, Sequence[str]], names: Sequence[str]) -> None:
    for name in names or tables:
        if name not in tables:
            print(f"no table {name}; there are {', '.join(tables)}")
        else:
            print(name if not names else f"{name}: {', '.join(tables[name])}")


@contextlib.contextmanager
def _history(tables: Mapping[str, Sequence[str]]) -> Iterator[None]:
    """Line editing with completion of names, and the lines of earlier prompts."""
    import readline

    words = sorted({*tables, *(column for columns in tables.values() for column in columns)})
    folder = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "brokerscope"
    file = folder / "sql_history"
    readline.set_completer(lambda text, n: next(iter([word for word in words if word.startswith(text)][n:]), None))
    readline.parse_and_bind("tab: complete")
    readline.set_history_length(HISTORY)
    with contextlib.suppress(OSError):  # there is none yet, or it cannot be read
        readline.read_history_file(file)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            readline.write_history_file(file)
