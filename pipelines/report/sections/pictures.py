"""Pictures that the script draws from requests and batches; one that has nothing to show disappears."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section
from pipelines.sql.words import EXPLAINED_NS


def _view(name: str, **options: str) -> Callable[[Builder], Iterator[Html]]:
    def build(page: Builder) -> Iterator[Html]:
        if page.requests:
            yield page.view(name, **options)

    return build


TOPOLOGY = Section(
    "topology", "Who talks to whom", "width is rate, colour the share that failed, label p99", _view("topology")
)
DURATIONS = Section("durations", "Durations by broker", "one axis, height is the share", _view("spreads"))
CAUSES = Section(
    "causes",
    "Where the time of slow requests went",
    f"requests of {EXPLAINED_NS // 1_000_000} ms and more, without long polls, JoinGroup and SyncGroup",
    _view("causes", least=str(EXPLAINED_NS)),
)
MEMBERS = Section(
    "members", "Members of groups", "who was a member when; dotted lines are rebalances", _view("members")
)
PARTITIONS = Section("partitions", "Partitions", "messages produced to each, by broker", _view("partitions"))
