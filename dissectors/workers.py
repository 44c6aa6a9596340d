"""Who decodes: this process, or several that each take their share of the connections.

    this process                        a worker (captures of Limits.parallel_bytes and more, with jobs > 1)
    reads, parses headers      ──►      takes from each block the packets of its connections (by hash)
    releases the rows of all   ◄──      decodes, returns record batches

Commands are sent together, once they bring SENT_BYTES of packets. They lie once in memory that all processes share
(memfd_create(2)), which goes when the last worker has taken its packets; the rows that come back are copied out of
theirs. Workers get the same commands in the same order and decode at the same points of the capture, so the rows
between two points are the same however many there are. A site that begins and ends among commands which are sent
together, as that of a small capture of its own, is decoded by one worker: it would cost each of them as much as the
one. At most AHEAD messages are under way.

A worker ends when its pipe closes, whatever became of this process. Ctrl-C is this process's business: it ends them.
"""

from __future__ import annotations

import mmap
import multiprocessing
import os
import pickle
import signal
import traceback
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from itertools import cycle
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from dissectors.capture.block import COLUMNS, PacketBlock
from dissectors.engine import Decoded, fewer_collections
from dissectors.errors import BrokerscopeError, LostProcessError
from dissectors.limits import MIB
from dissectors.local_decoder import LocalDecoder, Outcome
from dissectors.options import Options
from dissectors.release import DecodedRows
from dissectors.rows.sink import Suspect, bounded
from dissectors.tcp.keys import connection_hashes, shares_of
from dissectors.tls import KeyLog
from dissectors.wire import codecs
from dissectors.wire.codec_sums import counting

AHEAD = 4  # messages that a worker may lag behind
SENT_BYTES = MIB  # of packets in a message, about
_SENT_COMMANDS = 1024  # in a message, at most
_WORD = 8  # bytes of a value in a column
_ROWS, _OUTCOME, _DONE, _ERROR = "rows", "outcome", "done", "error"  # what a worker answers


class WorkerCommand(NamedTuple):
    """What workers are to do: a method of LocalDecoder, and what it is given."""

    name: str
    arguments: tuple[Any, ...]
    owner: int | None = None  # the only worker that does it; None: all do


class _Place(NamedTuple):
    """Where packets lie, in place of them among the arguments of a command."""

    at: int  # behind the commands
    rows: int
    size: int  # bytes of their buffer


class _Part(NamedTuple):
    """What a worker decoded, up to a point of the capture or of the connections that end there."""

    clock: int  # as in DecodedRows
    decoded: Decoded
    last: bool  # up to that point


@dataclass
class _Worker:
    """Another process, and what is known of it."""

    process: BaseProcess
    pipe: Connection
    parts: deque[_Part] = field(default_factory=deque)  # that wait for those of the others
    passed: bool = False  # the point that not all have passed
    behind: int = 0  # messages that it has not dealt with


class Workers:
    """Decodes in other processes, with the commands of LocalDecoder; what was decoded comes some commands later."""

    def __init__(
        self, jobs: int, options: Options, files: list[str], keylog: KeyLog, suspects: list[Suspect] | None
    ) -> None:
        self._limits = options.limits
        self._outcomes: list[Outcome] = []
        self._workers: list[_Worker] = []
        self._commands: list[WorkerCommand] = []  # that are not sent yet
        self._size = 0  # bytes of packets that they bring
        self._divided: set[str] = set()  # sites of which all workers have some packets
        self._turns = cycle(range(jobs))  # whose turn it is to get a whole site
        arguments: tuple[Any, ...] = (_share(options, jobs), files, keylog, None if suspects is None else [])
        unmasked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            for index in range(jobs):
                self._workers.append(self._start(index, arguments))
        except BaseException:
            self.close()
            raise
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, unmasked)

    def _start(self, index: int, arguments: tuple[Any, ...]) -> _Worker:
        ours, theirs = multiprocessing.Pipe()
        inherited = [ours, *(worker.pipe for worker in self._workers)]
        process = multiprocessing.get_context("fork").Process(
            target=_work, args=(index, theirs, inherited, arguments), daemon=True, name=f"brokerscope-{index}"
        )
        with warnings.catch_warnings():  # other threads may run: the worker uses none of their locks
            warnings.simplefilter("ignore", DeprecationWarning)
            process.start()
        theirs.close()
        return _Worker(process, ours)

    def feed(self, site: str, block: PacketBlock, clock: int) -> Iterator[DecodedRows]:
        """Take packets. clock: as in SitePackets."""
        self._size += len(block.buffer)
        yield from self._command("feed", site, block, clock)

    def add_secrets(self, text: bytes) -> Iterator[DecodedRows]:
        """Take lines of a TLS key log; they hold for what is fed later."""
        yield from self._send()
        yield from self._catch_up(0)  # who is at work may want to be heard before it reads so much
        yield from self._command("add_secrets", text)
        yield from self._send()

    def end_site(self, site: str, clock: int) -> Iterator[DecodedRows]:
        """A site has no more packets."""
        yield from self._command("end_site", site, clock)

    def decode(self, clock: int) -> Iterator[DecodedRows]:
        """Decode all that was fed."""
        yield from self._command("decode", clock)
        yield from self._send()

    def finish(self) -> Iterator[DecodedRows]:
        """No more commands: give what has not been given yet."""
        yield from self._command("finish")
        yield from self._send()
        yield from self._catch_up(0)

    def outcome(self) -> Outcome:
        """After `finish`."""
        suspects = [suspect for outcome in self._outcomes for suspect in outcome.suspects]
        sums: Counter[tuple[str, str]] = Counter()
        for outcome in self._outcomes:
            sums.update(outcome.sums)
        overflow = {share: one for outcome in self._outcomes for share, one in outcome.overflow.items()}
        return Outcome(overflow, tuple(bounded(suspects, self._limits)), sums)

    def close(self) -> None:
        """End the processes, whatever they do."""
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()

    def _command(self, name: str, *arguments: Any) -> Iterator[DecodedRows]:
        """Note a command for all workers; send what is noted if it is enough."""
        self._commands.append(WorkerCommand(name, arguments))
        if self._size >= SENT_BYTES or len(self._commands) >= _SENT_COMMANDS:
            yield from self._send()

    def _send(self) -> Iterator[DecodedRows]:
        """Send the commands that are noted, and take what has come from the workers."""
        commands = self._with_owners()
        self._commands, self._size = [], 0
        fd, size = shared(commands, len(self._workers))
        del commands  # with their packets
        try:
            yield from self._catch_up(AHEAD - 1)
            for worker in self._workers:
                try:
                    worker.pipe.send(size)
                    send_handle(worker.pipe, fd, worker.process.pid)
                except OSError:
                    raise self._lost(worker) from None
                worker.behind += 1
            yield from self._receive(0)
        finally:
            os.close(fd)

    def _with_owners(self) -> list[WorkerCommand]:
        """The commands that are noted; those of a site that they hold whole are for one worker."""
        ended = {command.arguments[0] for command in self._commands if command.name == "end_site"}
        fed = {command.arguments[0] for command in self._commands if command.name == "feed"}
        owners = {site: next(self._turns) for site in sorted(ended - self._divided)}
        self._divided = (self._divided | fed) - ended
        of_sites = ("feed", "end_site")
        return [c._replace(owner=owners.get(c.arguments[0])) if c.name in of_sites else c for c in self._commands]

    def _catch_up(self, most: int) -> Iterator[DecodedRows]:
        """Wait until nobody lags behind by more than so many messages."""
        while max(worker.behind for worker in self._workers) > most:
            yield from self._receive(None)

    def _receive(self, timeout: float | None) -> Iterator[DecodedRows]:
        """Take what workers have sent; at least one message, unless the time is over."""
        while ready := wait([worker.pipe for worker in self._workers], timeout):
            timeout = 0
            for worker in self._workers:
                if worker.pipe in ready:
                    self._take(worker)
        yield from self._released()

    def _released(self) -> Iterator[DecodedRows]:
        """What all have decoded: part by part of those that have not passed the point yet."""
        while all(worker.passed or worker.parts for worker in self._workers):
            on_the_way = [worker for worker in self._workers if not worker.passed]
            parts = [worker.parts.popleft() for worker in on_the_way]
            yield DecodedRows(parts[0].clock, [part.decoded for part in parts])
            for worker, part in zip(on_the_way, parts, strict=True):
                worker.passed = part.last
            if all(worker.passed for worker in self._workers):
                for worker in self._workers:
                    worker.passed = False

    def _take(self, worker: _Worker) -> None:
        try:
            kind, content = worker.pipe.recv()
            rows = recv_handle(worker.pipe) if kind == _ROWS else None
        except (EOFError, OSError):
            raise self._lost(worker) from None
        if kind == _ERROR:
            raise content
        if rows is not None:
            clock, places, names, last = content
            worker.parts.append(_Part(clock, Decoded(_received_rows(rows, places), names), last))
        elif kind == _DONE:
            worker.behind -= 1
        elif kind == _OUTCOME:
            self._outcomes.append(content)

    @staticmethod
    def _lost(worker: _Worker) -> BrokerscopeError:
        worker.process.join(1)
        return LostProcessError(worker.process.exitcode)


def _share(options: Options, jobs: int) -> Options:
    """What one of them may use: all together no more than one process alone."""
    limits = options.limits
    each = {name: -(-getattr(limits, name) // jobs) for name in ("memory_bytes", "endpoints")}
    return options._replace(limits=limits._replace(**each))


# --- what is shared --------------------------------------------------------------------------------------------------


def shared(commands: Sequence[WorkerCommand], jobs: int) -> tuple[int, int]:
    """(descriptor of a file in memory, bytes of the commands at its beginning, to a multiple of _WORD).

    In the commands places stand for packets. These lie behind, block by block: whose each packet is, unless all are the
    owner's; the columns; the buffer.
    """
    parts: list[Any] = []
    placed = []
    at = 0
    for command in commands:
        arguments = list(command.arguments)
        for n, block in enumerate(arguments):
            if not isinstance(block, PacketBlock):
                continue
            columns = [np.ascontiguousarray(getattr(block, name)) for name in COLUMNS]
            if command.owner is None:
                columns.insert(0, shares_of(connection_hashes(block)) % jobs)
            arguments[n] = _Place(at, len(block), len(block.buffer))
            parts += [*columns, block.buffer, bytes(-len(block.buffer) % _WORD)]
            at += _WORD * len(block) * len(columns) + len(block.buffer) + len(parts[-1])
        placed.append(command._replace(arguments=tuple(arguments)))
    head = pickle.dumps(placed)
    head += bytes(-len(head) % _WORD)
    fd = os.memfd_create("commands")
    with os.fdopen(os.dup(fd), "wb") as file:
        for part in (head, *parts):
            file.write(part)
    return fd, len(head)


def received(fd: int, size: int, index: int) -> Iterator[WorkerCommand]:
    """The commands for one worker, with its packets. fd, size: as of `shared`."""
    memory = _mapped(fd)
    for command in pickle.loads(memory[:size]):
        if command.owner in (None, index):
            arguments = (
                _packets(memory[size:], given, None if command.owner is not None else index)
                if isinstance(given, _Place)
                else given
                for given in command.arguments
            )
            yield command._replace(arguments=tuple(arguments))


def _packets(memory: memoryview, place: _Place, index: int | None) -> PacketBlock:
    """The packets at a place: those of a worker among all, or all where it is None."""
    names = COLUMNS if index is None else ("owner", *COLUMNS)
    head = place.at + _WORD * len(names) * place.rows
    table = np.frombuffer(memory[place.at : head], np.int64).reshape(-1, place.rows)
    table = table.copy() if index is None else table[1:, np.flatnonzero(table[0] == index)]
    columns: dict[str, Any] = dict(zip(COLUMNS, table, strict=True))
    for name in ("src_hi", "src_lo", "dst_hi", "dst_lo"):
        columns[name] = columns[name].view(np.uint64)
    return PacketBlock(memory[head : head + place.size], **columns)


def _share_rows(batches: Sequence[tuple[str, pa.RecordBatch]]) -> tuple[int, list[tuple[str, int, int]]]:
    """(descriptor of a file in memory, table and place of each record batch in it)."""
    fd = os.memfd_create("rows")
    places: list[tuple[str, int, int]] = []
    with pa.PythonFile(os.fdopen(os.dup(fd), "wb", buffering=0), "w") as file:
        for table, batch in batches:
            at = file.tell()
            with pa.ipc.new_stream(file, batch.schema) as writer:
                writer.write_batch(batch)
            places.append((table, at, file.tell() - at))
    return fd, places


def _received_rows(fd: int, places: Sequence[tuple[str, int, int]]) -> list[tuple[str, pa.RecordBatch]]:
    """The record batches, each in memory of its own: who keeps those of one table keeps no others with them."""
    try:
        parts = [(table, pa.py_buffer(os.pread(fd, size, at))) for table, at, size in places]
    finally:
        os.close(fd)
    return [(table, pa.ipc.open_stream(part).read_next_batch()) for table, part in parts]


def _mapped(fd: int) -> memoryview:
    """The contents of a file, which is closed."""
    try:
        return memoryview(mmap.mmap(fd, 0, flags=mmap.MAP_SHARED | mmap.MAP_POPULATE, prot=mmap.PROT_READ))
    finally:
        os.close(fd)


# --- a worker --------------------------------------------------------------------------------------------------------


def _work(index: int, pipe: Connection, inherited: list[Connection], arguments: tuple[Any, ...]) -> None:
    """The life of a worker: carry out commands until the pipe closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
    for connection in inherited:  # else it would not be seen when the other end closes
        connection.close()
    try:
        with fewer_collections():
            _serve(index, pipe, arguments)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        pass  # nobody listens any more


def _send_rows(pipe: Connection, release: DecodedRows) -> None:
    for decoded in release.decoded:
        fd, places = _share_rows(decoded.batches)
        try:
            pipe.send((_ROWS, (release.clock, places, decoded.names, release.whole)))
            send_handle(pipe, fd, os.getppid())
        finally:
            os.close(fd)


def _serve(index: int, pipe: Connection, arguments: tuple[Any, ...]) -> None:
    count: AbstractContextManager[Counter[tuple[str, str]]]
    count = counting() if codecs.listeners else nullcontext(Counter())
    codecs.listeners.clear()  # they count for the process that this one was forked from
    with count as sums:
        decoder = LocalDecoder(*arguments)
        while True:
            size = pipe.recv()
            try:
                for name, values, _ in received(recv_handle(pipe), size, index):
                    for release in getattr(decoder, name)(*values):
                        _send_rows(pipe, release)
                    if name == "finish":
                        pipe.send((_OUTCOME, decoder.outcome()._replace(sums=sums)))
            except (BrokenPipeError, ConnectionResetError):
                raise
            except Exception as error:
                error.add_note("".join(traceback.format_exception(error)))
                pipe.send((_ERROR, error))
                return
            pipe.send((_DONE, None))
