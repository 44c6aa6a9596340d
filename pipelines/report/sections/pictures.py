"""Pictures that the script draws from requests and batches; one that has nothing to show disappears."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pipelines.report.elements import Html
from pipelines.report.section import Builder, Section


def _view(name: str) -> Callable[[Builder], Iterator[Html]]:
    def build(page: Builder) -> Iterator[Html]:
        if page.requests:
            yield page.view(name)

    return build


TOPOLOGY = Section(
    "topology", "Who talks to whom", "width is rate, colour the share that failed, label p99", _view("topology")
)
DURATIONS = Section("durations", "Durations by broker", "one axis, height is the share", _view("spreads"))
MEMBERS = Section(
    "members", "Members of groups", "who was a member when; dotted lines are rebalances", _view("members")
)
PARTITIONS = Section("partitions", "Partitions", "messages produced to each, by broker", _view("partitions"))
