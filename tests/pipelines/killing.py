"""`python -m tests.pipelines.killing MASTER OUT CAPTURE… --markers FOLDER`: a job in which a worker dies in each stage.

The first task of every stage does all of its work, and is killed (-9), with the executor it runs in where that is a
process of its own, before it can say so. OUT/records are to be those of an undisturbed run. Prints the stages in which
a worker died; FOLDER gets a file for each.
"""

import contextlib
import os
import signal
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

from dissectors.capture import expand
from dissectors.options import Options
from pipelines.jobs import decode, joining, plan
from pipelines.jobs.records import decode_to_records
from pipelines.spark import session
from pipelines.spark.executor import SparkExecutor
from pipelines.tables.table import RECORDS

STAGES = {
    "survey": (plan, "walk_file"),
    "cut": (plan, "cut_to_file"),
    "sort": (plan, "sort_places"),
    "decode": (plan, "decode_from_files"),
    "names": (decode, "put_in_names_of_lists"),
    "join": (joining, "join"),
}
TASKS = ((plan, "PIECES_A_SORT", 1), (joining, "_HERE", 0))  # so that tasks do what this process does of small captures
CONF = {"spark.sql.shuffle.partitions": "2", "spark.brokerscope.splitBytes": "50000", "spark.executor.memory": "512m"}


def killed_once(task: Callable[..., Any], marker: str, *, with_executor: bool) -> Callable[..., Any]:
    """A task of which the first one dies at its end."""

    def run(*args: Any, **options: Any) -> Any:
        result = task(*args, **options)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
            if with_executor:
                daemon = os.getppid()
                executor = int(Path(f"/proc/{daemon}/stat").read_text().rsplit(") ", 1)[1].split()[1])
                os.kill(executor, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    return run


def main() -> None:
    """Run the job."""
    parser = ArgumentParser()
    parser.add_argument("master")
    parser.add_argument("out")
    parser.add_argument("captures", nargs="+")
    parser.add_argument("--markers", type=Path, required=True)
    parser.add_argument("--site", default="folder")
    parser.add_argument("--conf", action="append", default=[])
    args = parser.parse_args()
    conf = dict(pair.split("=", 1) for pair in args.conf)
    application = session.begin(args.master, light=True, conf=CONF | conf)
    markers = {stage: args.markers / stage for stage in STAGES}
    with contextlib.ExitStack() as patches:
        for stage, (owner, name) in STAGES.items():
            mortal = killed_once(getattr(owner, name), str(markers[stage]), with_executor=not application.is_local)
            patches.enter_context(patch.object(owner, name, mortal))
        for owner, name, value in TASKS:
            patches.enter_context(patch.object(owner, name, value))
        options = Options(tables=RECORDS, site=args.site)
        decode_to_records(SparkExecutor(application), expand(args.captures), args.out, options)
    print(*(stage for stage, marker in markers.items() if marker.exists()))
    assert application.context is not None
    application.context.stop()


if __name__ == "__main__":
    main()
