"""Makes the archive of Spark's Java classes: `python -m pipelines.spark.train_java CAPTURES`.

A job over the captures has Java load what such jobs need; when it ends, Java writes the archive. Without Java or Spark,
or where the environment cannot be written to, there is none, and everything works as without it.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from dissectors.capture.files import expand
from dissectors.errors import BrokerscopeError
from dissectors.options import Options
from pipelines.spark import class_archive, java, job

_LONGEST_S = 600  # in which Java has to end


def main(captures: Sequence[str]) -> int:
    """Make the archive unless there is one. Says on stderr why there will be none; that is no failure."""
    try:
        found = java.find()
        archive = class_archive.path(found)
        if archive.is_file():
            return 0
        class_archive.FOLDER.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=class_archive.FOLDER) as room:
            _write(captures, found, Path(room, "classes"))
            Path(room, "classes").replace(archive)
    except (BrokerscopeError, ImportError, OSError, subprocess.TimeoutExpired) as error:
        print(f"Spark will start without an archive of its classes: {error}", file=sys.stderr)
        return 0
    for old in class_archive.others(found):
        with contextlib.suppress(OSError):
            old.unlink()
    return 0


def _write(captures: Sequence[str], found: java.Java, target: Path) -> None:
    """Run a job whose Java writes the archive."""
    from pyspark import SparkContext

    files = expand(captures)
    conf = {"spark.driver.extraJavaOptions": class_archive.writing(found, target)}
    with tempfile.TemporaryDirectory() as out:
        job.decode_to_records(job.begin(files, "local[2]", conf).session, files, out, Options())
    context, gateway = SparkContext._active_spark_context, SparkContext._gateway
    assert context is not None
    assert gateway is not None
    context.stop()
    process: subprocess.Popen[bytes] = gateway.proc
    gateway.shutdown()
    assert process.stdin is not None
    process.stdin.close()  # by which Spark's Java knows that it is to end
    if process.wait(_LONGEST_S) != 0:
        raise BrokerscopeError("Java did not end as it should")


if __name__ == "__main__":
    done = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(done)
