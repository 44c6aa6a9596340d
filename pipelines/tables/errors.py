"""What brokers refused, and why."""

from __future__ import annotations

from pipelines.sql.words import CLIENT
from pipelines.tables.changed_before import CAUSES, SENTENCE, told_by
from pipelines.tables.changes import CHANGES
from pipelines.tables.dialect import LISTED, Dialect
from pipelines.tables.table import Ask, Table, TableColumn, earliest

_KEYS = ("protocol", "api", "scope", "code", "name", "retriable", "expected")


def _errors(d: Dialect, ask: Ask) -> str:
    keys = ", ".join(_KEYS)
    same = " and ".join(f"{key} is not distinct from of_{key}" for key in _KEYS)
    return f"""
        with refused as (
            select protocol, api, scope, code, name, retriable, coalesce(expected, false) as expected, time, topic,
                message, file, packet, site, exchange_id, {CLIENT} as client from errors
        ), told as (
            select {keys}, count(*) as count, min(time) as first_time, max(time) as last_time,
                {d.listed("topic")} as topics, {d.listed("client")} as clients,
                {earliest(d, "message")} as message, {earliest(d, "file")} as file, {earliest(d, "packet")} as packet
            from refused group by {keys}
        ), changed as ({_changed(d)})
        select told.*, changed_by from told left join changed on {same}
    """


def _changed(d: Dialect) -> str:
    """The keys of errors (`of_protocol` …), with the last change before the last of them that may have caused them."""
    causes = [cause for cause in CAUSES if cause.errors]
    sorts = (f"when regexp_extract(name, '^({one.errors})$', 0) <> '' then {at}" for at, one in enumerate(causes))
    group = d.quoted("group")
    of_it = "topic in (of_topic, split_part(of_topic, '/', 1))"  # Iggy's topics go with their stream
    of = (of_it, f"{group} = of_group", "of_client like concat('% ', subject)")
    may = (f"sort = {at} and ({told_by(d, one.where, *of)})" for at, one in enumerate(causes))
    any_of = [f"({told_by(d, one.where, 'true', 'true', 'true')})" for one in causes]  # few: most create a thing
    keys, named = ", ".join(f"e.{key}" for key in _KEYS), ", ".join(f"of_{key}" for key in _KEYS)
    return f"""
        with failed as (
            select {", ".join(f"e.{key} as of_{key}" for key in _KEYS)}, e.topic as of_topic, x.{group} as of_group,
                e.client as of_client, sort, max(e.time) as until
            from (select *, case {" ".join(sorts)} end as sort from refused) e
                left join (select site, exchange_id, {group} from exchanges where {group} is not null) x
                    on e.site = x.site and e.exchange_id = x.exchange_id
            where sort is not null
            group by {keys}, e.topic, e.client, x.{group}, sort
        ), done as (
            select *, {SENTENCE} as sentence from {CHANGES.known}
            where result = 'ok' and ({" or ".join(any_of)})
        )
        select {named}, {d.first("sentence", f"-{d.micros('time')}", "-packet", "sentence")} as changed_by
        from failed join done on of_protocol = protocol and time <= until and ({" or ".join(may)})
        group by {named}"""


ERRORS = Table(
    "errors",
    "Errors in answers: one row per API, code and scope. What is part of normal work comes last. "
    f"Lists hold at most {LISTED} names.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("api", "the API that answered"),
        TableColumn("scope", "what failed: request, topic, partition, group …"),
        TableColumn("code", "number on the wire", "code"),
        TableColumn("name", "the protocol's name for it"),
        TableColumn("retriable", "whether the protocol calls it retriable"),
        TableColumn("expected", "part of normal work, as MEMBER_ID_REQUIRED at a first join"),
        TableColumn("count", "how often", "count"),
        TableColumn("first_time", "first seen", "time"),
        TableColumn("last_time", "last seen", "time"),
        TableColumn("topics", "topics it was about", "list"),
        TableColumn("clients", "clients that got it", "list"),
        TableColumn("message", "text that came with the first one"),
        TableColumn("file", "where the first one is"),
        TableColumn("packet", "its packet number in that file, from 1", "code"),
        TableColumn("changed_by", "the last change before that may have caused them: who did what, and where it is"),
    ),
    _errors,
    headline=(
        "protocol", "api", "name", "code", "scope", "retriable", "expected", "count", "topics", "clients",
        "changed_by", "file", "packet",
    ),
    order=("expected", "count desc", "protocol", "api", "scope", "code", "name", "retriable"),
)  # fmt: skip
