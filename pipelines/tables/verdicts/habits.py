"""Clients that ask the same question more often than any retry makes them."""

from __future__ import annotations

from collections.abc import Iterator

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.thresholds import A_MINUTE
from pipelines.tables.verdicts.verdict import Ruling, sql_list, together

_LOOKUPS = (
    "Metadata", "FindCoordinator", "ApiVersions", "DescribeTopicPartitions", "LOOKUP", "PARTITIONED_METADATA",
    "GET_TOPICS_OF_NAMESPACE", "GET_CLUSTER_METADATA",
)  # fmt: skip
_ASKED = f"kind in ('call', 'unanswered') and api in {sql_list(_LOOKUPS)}"
_MINUTE = "range between interval 59999999 microseconds preceding and current row"


@needs(SomeRows("v_calls", _ASKED, least=A_MINUTE))
def metadata_storm(capture: Capture) -> Iterator[Ruling]:
    """Connections that ask where something is again and again."""
    asked = f"""
        select c.* from v_calls c semi join (
            select site, connection, incarnation, api, topics from (
                select *, count(*) over (
                    partition by site, connection, incarnation, api, topics order by time {_MINUTE}) as within
                from v_calls where {_ASKED} and not {capture.explained()}
            ) where within >= {A_MINUTE}
        ) often on c.site = often.site and c.connection = often.connection and c.incarnation = often.incarnation
            and c.api = often.api and c.topics is not distinct from often.topics"""
    for row in capture.rows(together(asked, ["protocol", "api"])):
        about = say.named(row["topics"], "topic")
        yield Ruling(
            "metadata_storm",
            f"{say.clients(row)} sent {row['api']}{about and f' for {about}'} {say.times(row['count'])}, "
            f"{A_MINUTE} or more of them within a minute on one connection.",
            row,
        )
