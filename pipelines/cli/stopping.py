"""Ctrl-C while captures come from a pipe: what was seen so far is answered, as if the pipe had ended there."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class PipeEnd:
    """Whether the user has ended the pipe."""

    def __init__(self) -> None:
        self.by_user = False


@contextlib.contextmanager
def ends_pipe() -> Iterator[PipeEnd]:
    """In the block the first Ctrl-C ends standard input; the next one does what it did before.

    The file behind descriptor 0 is replaced by an empty one, so a read that waits, which Python begins again behind a
    signal, finds the end.
    """
    end = PipeEnd()
    before = signal.getsignal(signal.SIGINT)
    if not callable(before) or threading.current_thread() is not threading.main_thread():
        yield end  # interrupts are ignored, or are another's business
        return

    def stop(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        end.by_user = True
        empty = os.open(os.devnull, os.O_RDONLY)
        os.dup2(empty, 0)
        os.close(empty)

    signal.signal(signal.SIGINT, stop)
    try:
        yield end
    finally:
        signal.signal(signal.SIGINT, before)
