"""Processes that tests start."""

from __future__ import annotations

import subprocess


def end(process: subprocess.Popen[bytes], patience: float) -> None:
    """Ask a process to end; kill it if it has not after so many seconds."""
    process.terminate()
    try:
        process.wait(patience)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
