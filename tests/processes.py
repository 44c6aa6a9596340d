"""Processes that tests start."""

import fcntl
import subprocess
import termios
import time
from pathlib import Path


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end; kill it if it has not after so many seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def wait_until_idle(process: subprocess.Popen[bytes], patience: float) -> None:
    """Wait until a process has read its standard input as far as it was written, and does nothing but wait for more."""
    assert process.stdin is not None
    end, before = time.monotonic() + patience, None
    while time.monotonic() < end:
        state, *numbers = Path(f"/proc/{process.pid}/stat").read_text().rpartition(") ")[2].split()
        ticks = numbers[10:12]  # of CPU, in its own code and in the system's
        unread = any(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4)))
        if state == "S" and not unread and ticks == before:
            return
        before = ticks
        time.sleep(0.25)
    raise TimeoutError("the process goes on working")
