"""`analyze --explain`: what a run on Spark would do, of captures that are there or that a listing names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from dissectors.capture import expand
from dissectors.capture.source import file_size
from dissectors.errors import InputError, UsageError
from dissectors.options import Options
from dissectors.run import with_sites
from pipelines.cli.printing import PrintedField, show_rows
from pipelines.formats import units
from pipelines.jobs.forecast import Forecast, Listed, forecast, listed
from pipelines.storage import filesystem

LISTINGS = (".tsv", ".jsonl")  # how the names of files end that list captures
_STEPS = (PrintedField("step"), PrintedField("tasks", "count"), PrintedField("read"), PrintedField("largest task"))


def explain(captures: Sequence[str], options: Options, master: str | None, settings: Mapping[str, str]) -> None:
    """Print the plan of a run. captures: as the user names them. settings: of Spark, as far as they are known.

    Raises InputError for a listing that cannot be read, UsageError where there is nothing to plan.
    """
    from pipelines.spark import options as spark_options
    from pipelines.spark.executor import wanted_parts
    from pipelines.spark.session import cores

    lists = [path for path in captures if path.endswith(LISTINGS)]
    found = [one for path in lists for one in _listed(path)]
    if len(lists) < len(captures):
        files = expand([path for path in captures if path not in lists])
        sizes = filesystem.each(file_size, files)
        found += [Listed(path, size) for path, size in zip(files, sizes, strict=True)]
        options = with_sites(options, files)
    if not any(one.size for one in found):
        raise UsageError(f"{', '.join(captures)}: there are no captures to plan for")
    split = spark_options.of_session(settings)["splitBytes"]
    parts = wanted_parts(settings)
    _show(forecast(found, options, cores(master, settings), wanted_split=split, wanted_parts=parts))


def _listed(path: str) -> list[Listed]:
    try:
        with Path(path).open(encoding="utf-8", errors="surrogateescape") as lines:
            return listed(lines)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from error


def _show(plan: Forecast) -> None:
    about = units.size(plan.size)
    if plan.unpacked != plan.size:
        about += f", taken for {units.size(plan.unpacked)} without compression"
    print(f"{units.counted(plan.captures, 'capture')} of {units.counted(plan.sites, 'capture point')}: {about}")
    print(f"{units.counted(plan.cores, 'core')}: {units.counted(plan.cores, 'task')} at a time\n")
    show_rows(
        [
            {"step": s.name, "tasks": s.tasks, "read": units.size(s.size), "largest task": units.size(s.largest)}
            for s in plan.steps
        ],
        _STEPS,
    )
    copied = f"up to {units.size(plan.copied)}, in {units.counted(plan.pieces, 'piece')}" if plan.copied else "none"
    print(f"\nPackets below OUT, until the run ends: {copied}")
    spilled = f"up to {units.size(plan.spilled)}" if plan.spilled else "none"
    print(f"Local disk of a task, where Spark keeps its own files: {spilled}")
    print(f"Results of tasks that come to the driver: about {units.size(plan.results)}")
    print(f"Memory of the driver while captures are decoded: about {units.size(plan.driver)}, beside that of Java")
