"""Tasks on Spark."""

from __future__ import annotations

import platform
import posixpath
import re
import secrets as random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import cast

from dissectors.errors import BrokerscopeError
from pipelines.executors.executor import Item, Result
from pipelines.spark import options as spark_options
from pipelines.spark import package
from pipelines.spark.application import Application
from pipelines.spark.tasks import call
from pipelines.storage import filesystem

UNKNOWN_CORES = 8  # of a session that does not say how many it has
PARTITIONS = "spark.sql.shuffle.partitions"  # where it is set, the captures are shared out into so many parts
DEFAULT_PARTITIONS = "200"
PROBE = "probe"  # a file by which driver and workers find out whether they share a place
PROBES = 8  # tasks that look for it


def wanted_parts(settings: Mapping[str, str]) -> int | None:
    """Parts that settings of Spark ask for; None where that is Spark's own number."""
    wanted = settings.get(PARTITIONS, DEFAULT_PARTITIONS)
    return int(wanted) if wanted != DEFAULT_PARTITIONS else None


class SparkExecutor:
    """Runs tasks in a Spark application, also one of Spark Connect."""

    def __init__(self, application: Application, step: Callable[[str], None] = lambda described_as: None) -> None:
        """step: is told what each job does."""
        self.application = application
        self._step = step

    @property
    def cores(self) -> int:
        """Tasks that run at once, as far as is known."""
        context = self.application.context
        return UNKNOWN_CORES if context is None else max(1, context.defaultParallelism)

    @property
    def split_bytes(self) -> int | None:
        """The setting spark.brokerscope.splitBytes. Raises UsageError where it means nothing."""
        return cast(int | None, spark_options.of_session(self.application.settings)["splitBytes"])

    @property
    def parts(self) -> int | None:
        """The setting spark.sql.shuffle.partitions, where it is not Spark's own."""
        return wanted_parts(self.application.settings)

    def check(self, staging: str) -> None:
        """Raise BrokerscopeError where workers lack this package, or do not share the folder with this process."""
        if self.application.is_local:
            return
        token = random.token_hex(16)
        filesystem.write(filesystem.join(staging, PROBE), token.encode())
        try:
            answers = self.map(partial(_answer, staging, token), range(PROBES), "looking for what workers share")
        except Exception as error:  # Connect and the JVM have different ones
            lacking = re.search(r"No module named '(\w+)", str(error))
            if lacking is None:
                raise
            whole = "" if lacking[1] in package.PACKAGES else " --dependencies"
            raise BrokerscopeError(
                f"the workers lack {lacking[1]}: install it there, or `brokerscope package{whole} -o FILE.tar.gz` "
                "makes an archive that brings it to them"
            ) from error
        for host, sees, name in answers:
            if not sees or filesystem.read(filesystem.join(staging, name)) != token.encode():
                raise BrokerscopeError(
                    f"{posixpath.dirname(staging)}: worker {host} does not share this place: OUT must be a folder that "
                    "all machines mount, or a URL of an object store"
                )

    def map(
        self, task: Callable[[Item], Result], items: Sequence[Item], described_as: str, size: int = 0
    ) -> list[Result]:
        """What a task makes of each item, a Spark task an item. See `Executor`; raises what Spark raises."""
        if not items:
            return []
        self._step(described_as)
        with _described(self.application, described_as):
            return call(self.application, task, items)


@contextmanager
def _described(application: Application, text: str) -> Iterator[None]:
    """Jobs of this thread say what they do: by their description, or a tag where the session is one of Connect."""
    context = application.context
    if context is None:
        tag = text.replace(",", ";")  # which a tag may not hold
        application.session.addTag(tag)
        try:
            yield
        finally:
            application.session.removeTag(tag)
        return
    before = context.getLocalProperty("spark.job.description")
    context.setJobDescription(text)
    try:
        yield
    finally:
        context.setLocalProperty("spark.job.description", before)  # type: ignore[arg-type]  # None takes it away


def _answer(staging: str, token: str, number: int) -> tuple[str, bool, str]:
    """On a worker: (its name, whether it reads what the driver wrote, the file that it wrote)."""
    name = f"{PROBE}-{number}"
    sees = filesystem.read(filesystem.join(staging, PROBE)) == token.encode()
    filesystem.write(filesystem.join(staging, name), token.encode())
    return platform.node(), sees, name
