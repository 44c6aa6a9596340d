"""A process that runs tasks for another one: what `local` starts.

It is sent a TaskToRun, then one item after the other, then perhaps another TaskToRun, and sends back (whether the task
failed, its result or error) for each item.
"""

from __future__ import annotations

import os
import pickle
import sys
import threading
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from dissectors.capture import stores
from pipelines import process
from pipelines.pandas_guard import without_pandas


class TaskToRun(NamedTuple):
    """What comes before the items of a job."""

    function: Callable[[Any], Any]
    options: dict[stores.Place, stores.Options]  # of object stores
    folder: Path  # of relative paths


def main(handle: int) -> None:
    """Run tasks until the pipe closes. handle: of this end of the pipe."""
    process.prepare()
    without_pandas()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe = Connection(handle)
    task: Callable[[Any], Any] = repr
    try:
        while True:
            given = pipe.recv()
            if isinstance(given, TaskToRun):
                task, options, folder = given
                stores.set_options(options)
                stores.set_folder(folder)
                continue
            try:
                answer = False, task(given)
            except Exception as error:
                error.add_note("".join(traceback.format_exception(error)))
                answer = True, _sendable(error)
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # nobody listens any more


def _sendable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be pickled, as those of some libraries."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error


def _end_with_parent() -> None:
    """End this process when the one that started it does: its end of standard input closes then."""
    sys.stdin.buffer.read()
    os._exit(1)
