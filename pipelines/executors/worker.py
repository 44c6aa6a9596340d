"""A process that runs tasks for another one: what `local` starts.

It is sent (task, options of object stores, folder of relative paths), then one item after the other, and sends back
(whether the task failed, its result or error) for each.
"""

from __future__ import annotations

import os
import sys
import threading
import traceback
from multiprocessing.connection import Connection

from dissectors.capture import stores
from pipelines import process


def main(handle: int) -> None:
    """Run tasks until the pipe closes. handle: of this end of the pipe."""
    process.prepare()
    threading.Thread(target=_end_with_parent, daemon=True).start()
    pipe = Connection(handle)
    try:
        task, options, folder = pipe.recv()
        stores.set_options(options)
        stores.set_folder(folder)
        while True:
            item = pipe.recv()
            try:
                answer = False, task(item)
            except Exception as error:
                error.add_note("".join(traceback.format_exception(error)))
                answer = True, error
            pipe.send(answer)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # nobody listens any more


def _end_with_parent() -> None:
    """End this process when the one that started it does: its end of standard input closes then."""
    sys.stdin.buffer.read()
    os._exit(1)
