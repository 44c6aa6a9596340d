"""Tasks on this machine: in this process, or in several where that is quicker.

The other processes are new Pythons, not forks: threads of libraries that this process has used (DuckDB's, Arrow's,
those of object stores) hold locks that stay shut in a fork. A new process loads its libraries again, which costs up to
a second, so only work of WORTH_BYTES and more is given away.
"""

from __future__ import annotations

import subprocess
import sys
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from dissectors.capture import stores
from dissectors.errors import BrokerscopeError
from dissectors.limits import MIB
from dissectors.local_decoder import cores
from dissectors.options import ALL_CORES
from pipelines.executors.executor import Item, Result
from pipelines.executors.worker import TaskToRun

WORTH_BYTES = 64 * MIB  # to read, from which on other processes help
_PROGRAM = "import sys; sys.path[:] = {path!r}; from {worker} import main; main({handle})"


class LocalExecutor:
    """Runs tasks on this machine. Other processes that it has started end with it."""

    split_bytes: int | None = None
    parts: int | None = None

    def __init__(self, jobs: int = ALL_CORES, step: Callable[[str], None] = lambda described_as: None) -> None:
        """jobs: processes at most; ALL_CORES for one a core. step: is told what each job does."""
        self.cores = jobs or cores()
        self._step = step
        self._workers: list[_Worker] = []
        weakref.finalize(self, _end, self._workers)

    def check(self, staging: str) -> None:
        """Everything runs on this machine, which has this package and shares every place with itself."""

    def map(
        self, task: Callable[[Item], Result], items: Sequence[Item], described_as: str, size: int = 0
    ) -> list[Result]:
        """What a task makes of each item. See `Executor`; raises what the task raises."""
        if not items:
            return []
        self._step(described_as)
        processes = min(self.cores, len(items)) if size >= WORTH_BYTES else 1
        if processes == 1:
            return [task(item) for item in items]
        try:
            while len(self._workers) < processes:
                self._workers.append(_started())
            return _shared_out(task, items, self._workers[:processes])
        except BaseException:  # the others are at work for nothing
            _end(self._workers)
            raise


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    item: int = -1  # that it has


def _shared_out(task: Callable[[Item], Result], items: Sequence[Item], workers: Sequence[_Worker]) -> list[Result]:
    results: dict[int, Result] = {}
    waiting = deque(range(len(items)))
    for worker in workers:
        _send(worker, TaskToRun(task, stores.all_options(), Path.cwd()))
    busy = [worker for worker in workers if _gets_next(worker, waiting, items)]
    while busy:
        ready = wait([worker.pipe for worker in busy])
        for worker in [worker for worker in busy if worker.pipe in ready]:
            results[worker.item] = _received(worker)
            if not _gets_next(worker, waiting, items):
                busy.remove(worker)
    return [results[n] for n in range(len(items))]


def _end(workers: list[_Worker]) -> None:
    """End other processes, whatever they do."""
    for worker in workers:
        worker.pipe.close()
        worker.process.kill()
    for worker in workers:
        worker.process.communicate()
    workers.clear()


def _started() -> _Worker:
    ours, theirs = Pipe()
    program = _PROGRAM.format(path=sys.path, worker=TaskToRun.__module__, handle=theirs.fileno())
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdin=subprocess.PIPE,  # closes with this process, whatever becomes of it, and then the other one ends
        pass_fds=[theirs.fileno()],
        process_group=0,  # Ctrl-C is for this process, which ends the others
    )
    theirs.close()
    return _Worker(process, ours)


def _gets_next(worker: _Worker, waiting: deque[int], items: Sequence[Any]) -> bool:
    """Give a worker the next item; whether there was one."""
    if not waiting:
        return False
    worker.item = waiting.popleft()
    _send(worker, items[worker.item])
    return True


def _send(worker: _Worker, value: Any) -> None:
    try:
        worker.pipe.send(value)
    except OSError:
        raise _lost(worker) from None


def _received(worker: _Worker) -> Any:
    try:
        failed, value = worker.pipe.recv()
    except (EOFError, OSError):
        raise _lost(worker) from None
    if failed:
        raise value
    return value


def _lost(worker: _Worker) -> BrokerscopeError:
    code = worker.process.wait()
    how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    return BrokerscopeError(f"a process that decodes {how}; with --jobs 1 less memory is needed")
