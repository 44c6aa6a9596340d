"""Tasks on this machine: in this process, or in several where that is quicker.

The other processes are new Pythons, not forks: threads of libraries that this process has used (DuckDB's, Arrow's,
those of object stores) hold locks that stay shut in a fork. A new process loads its libraries again, which costs up to
a second, so only work of WORTH_BYTES and more is given away.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, contextmanager
from functools import partial
from multiprocessing import active_children, get_context
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

from dissectors.capture import stores
from dissectors.errors import LostProcessError
from dissectors.limits import MIB
from dissectors.local_decoder import cores
from dissectors.options import ALL_CORES
from pipelines import process
from pipelines.executors.executor import Item, Result
from pipelines.pandas_guard import without_pandas

WORTH_BYTES = 64 * MIB  # to read, from which on other processes help


class LocalExecutor:
    """Runs tasks on this machine. Other processes that it has started end with it."""

    split_bytes: int | None = None
    parts: int | None = None

    def __init__(self, jobs: int = ALL_CORES, step: Callable[[str], None] = lambda described_as: None) -> None:
        """jobs: processes at most; ALL_CORES for one a core. step: is told what each job does."""
        self.cores = jobs or cores()
        self._step = step
        self._pool: ProcessPoolExecutor | None = None
        self._processes = ExitStack()
        weakref.finalize(self, self._processes.close)

    def check(self, staging: str) -> None:
        """Everything runs on this machine, which has this package and shares every place with itself."""

    def map(
        self, task: Callable[[Item], Result], items: Sequence[Item], described_as: str, size: int = 0
    ) -> list[Result]:
        """What a task makes of each item. See `Executor`; raises what the task raises."""
        if not items:
            return []
        self._step(described_as)
        if size < WORTH_BYTES or min(self.cores, len(items)) == 1:
            return [task(item) for item in items]
        if self._pool is None:
            self._pool = self._processes.enter_context(_pool(self.cores))
        others: list[BaseProcess] = []
        try:
            # who gets Ctrl-C is this process: new ones begin with it blocked
            unmasked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:
                results = self._pool.map(partial(_run, task, stores.all_options(), Path.cwd()), items)
                others = active_children()
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, unmasked)
            return list(results)
        except BrokenProcessPool:
            self._end()
            lost = [code for other in others if (code := other.exitcode) not in (None, 0, -signal.SIGTERM)]
            raise LostProcessError(lost[0] if lost else None) from None
        except BaseException:  # the others are at work for nothing
            self._end()
            raise

    def _end(self) -> None:
        """End the other processes, whatever they do, by SIGTERM."""
        self._pool = None
        self._processes.close()


@contextmanager
def _pool(most: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end with the block, whatever they do, and with this process, whatever becomes of it."""
    context = get_context("spawn")
    ours, theirs = context.Pipe()
    with theirs, ProcessPoolExecutor(most, context, _begin, (theirs,)) as pool, ours:  # ours closes first
        yield pool


# --- in another process ----------------------------------------------------------------------------------------------


def _begin(pipe: Connection) -> None:
    """Before the first task. pipe: closes when this process is to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    process.prepare()
    without_pandas()
    threading.Thread(target=_end_with, args=(pipe,), daemon=True).start()


def _end_with(pipe: Connection) -> None:
    wait([pipe])
    os.kill(os.getpid(), signal.SIGTERM)


def _run(
    task: Callable[[Item], Result], options: dict[stores.Place, stores.Options], folder: Path, item: Item
) -> Result:
    """Run a task where paths mean the same. options: of object stores; folder: of relative paths."""
    stores.set_options(options)
    stores.set_folder(folder)
    try:
        return task(item)
    except Exception as error:
        raise _sendable(error) from None


def _sendable(error: Exception) -> Exception:
    """The error, or one that says the same where it cannot be pickled, as those of some libraries."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(f"{type(error).__name__}: {error}")
    return error
