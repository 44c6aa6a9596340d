"""What stops working with brokers of a later release: by client, library, API and version.

used      what each client sent on each connection, and the library that it named there
clients   with the library: as the connection names it, else as another one of the same client does, else as the client
          id gives it away; and what the client speaks
broken    of that, what brokers of some later release do not understand

A client of which nothing breaks has one row, without an API. What brokers and controllers send each other is left out:
they are replaced together.
"""

from __future__ import annotations

from pipelines.sql.words import AMONG_BROKERS, HAS_REQUEST
from pipelines.tables.dialect import Dialect
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, alike, equal

TOLD, CLIENT_ID = "told", "client id"
"""Values of `software_from`."""

_LIBRARIES = (
    ("apache-kafka-java", "^(consumer|producer|adminclient)-"),
    ("apache-kafka-java", "^console-(consumer|producer)"),
    ("apache-kafka-java", "^connector-(consumer|producer|adminclient)-"),
    ("apache-kafka-java", "-StreamThread-[0-9]+-"),
    ("librdkafka", "^rdkafka"),
    ("kafka-python", "^kafka-python"),
    ("aiokafka", "^aiokafka"),
    ("sarama", "^sarama"),
    ("franz-go", "^kgo$"),
    ("kafka-go", "github.com/segmentio/kafka-go"),
    ("KafkaJS", "^kafkajs"),
    ("kafka-node", "^kafka-node-client"),
    ("no-kafka", "^no-kafka-client"),
    ("ruby-kafka", "^ruby-kafka"),
    ("brod", "^brod"),
)
"""Library -> the client ids that it gives itself where its user sets none. Source: defaults of each library."""
_VERSION = "-([0-9]+[.][0-9][0-9.]*)"
"""The version of a library in such a client id."""


def _library() -> str:
    cases = (f"when regexp_extract(client_id, '{pattern}', 0) <> '' then '{name}'" for name, pattern in _LIBRARIES)
    return f"case {' '.join(cases)} end"


def _removals() -> str:
    """A SELECT of what servers no longer understand: protocol, api, dialect, first, last, until, breaks_at."""
    from dissectors.session.protocols import protocols

    rows = [
        f"('{protocol.name}', '{one.api}', '{one.dialect or ''}', {-1 if one.first is None else one.first}, "
        f"{-1 if one.last is None else one.last}, '{one.until}', '{one.since}')"
        for protocol in protocols()
        for one in protocol.removals()
    ]
    return f"""
        select * from (values {", ".join(rows)})
            as t(protocol, api, dialect, first_version, last_version, until, breaks_at)"""


def _speaks() -> str:
    """A SELECT of Kafka's APIs and versions: key, known, and the number of the first release that serves it."""
    from dissectors.kafka.releases import first_served

    rows = ", ".join(f"({key}, {version}, {release})" for key, version, release in first_served())
    return f"select * from (values {rows}) as t(served_key, known, release)"


def _release_names() -> str:
    from dissectors.kafka.releases import releases

    cases = (f"when {at} then '{name}'" for at, name in enumerate(releases()))
    return f"case release {' '.join(cases)} end"


def _upgrades(d: Dialect, ask: Ask) -> str:
    conn, client = ", ".join(CONNECTION), ("protocol", "client_ip", "client_id")
    who = ", ".join(client)
    library = ("software", "software_version", "software_from", "speaks")
    named = ", ".join(library)
    return f"""
        with used as (
            select {who}, api, api_code, version, dialect, {conn}, count(*) as requests, max(time) as last_time
            from exchanges
            where {HAS_REQUEST} and api is not null and not {AMONG_BROKERS}
            group by {who}, api, api_code, version, dialect, {conn}
        ), software as (
            select {conn}, max(client_software) as told, max(client_version) as told_version
            from all_connections where client_software is not null or client_version is not null group by {conn}
        ), named as (
            select u.*, told, told_version, r.release,
                max(told) over (partition by u.protocol, client_ip, client_id) as elsewhere,
                max(told_version) over (partition by u.protocol, client_ip, client_id) as version_elsewhere
            from used u left join software s on {equal(CONNECTION, "u", "s")}
                left join ({_speaks()}) r on u.protocol = 'kafka' and u.api_code = served_key and u.version = known
        ), clients as (
            select *, coalesce(case when protocol = 'kafka' then {_release_names()} end, newest) as speaks from (
                select {who}, api, version, dialect, requests, last_time,
                    coalesce(told, elsewhere, {_library()}) as software,
                    case when told is not null or told_version is not null then told_version
                        when elsewhere is not null or version_elsewhere is not null then version_elsewhere
                        else nullif(regexp_extract(coalesce(client_id, ''), '{_VERSION}', 1), '') end
                        as software_version,
                    case when coalesce(told, told_version, elsewhere, version_elsewhere) is not null then '{TOLD}'
                        when {_library()} is not null then '{CLIENT_ID}' end as software_from,
                    max(release) over (partition by {who}, coalesce(told, elsewhere)) as release,
                    max(case when protocol <> 'kafka' then dialect end) over (partition by {who}) as newest
                from named
            )
        ), broken as (
            select {", ".join(f"c.{name}" for name in (*client, *library))}, c.api, c.version, r.until, r.breaks_at,
                {d.total("requests")} as requests, max(last_time) as last_time
            from clients c join ({_removals()}) r on c.protocol = r.protocol and c.api = r.api
                and (r.dialect <> '' and c.dialect = r.dialect
                    or r.dialect = '' and c.version between r.first_version and r.last_version)
            group by {", ".join(f"c.{name}" for name in (*client, *library))}, c.api, c.version, r.until, r.breaks_at
        ), sums as (
            select {who}, {named}, {d.total("requests")} as requests, max(last_time) as last_time
            from clients group by {who}, {named}
        )
        select {who}, {named}, api, version, until, breaks_at, requests, last_time from broken
        union all
        select {", ".join(f"s.{name}" for name in (*client, *library))}, cast(null as string) as api,
            cast(null as int) as version, cast(null as string) as until, cast(null as string) as breaks_at, s.requests,
            s.last_time
        from sums s left join (select distinct {who}, {named}, true as breaks from broken) b
            on {alike((*client, *library), "s", "b")}
        where breaks is null
    """


UPGRADES = Table(
    "upgrades",
    "What stops working with brokers of a later release: one row per client, library, API and version that some "
    "release no longer understands, and one without an API for each client of which nothing breaks.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("client_ip", "its address"),
        TableColumn("client_id", "what it calls itself"),
        TableColumn("software", "client library"),
        TableColumn("software_version", "its version"),
        TableColumn(
            "software_from",
            f"{TOLD}: the client named it; {CLIENT_ID}: it follows from the client id that the library gives itself; "
            "null where neither says anything",
        ),
        TableColumn(
            "speaks",
            "kafka: the first release whose brokers know every version that it sent; else the newest dialect that it "
            "spoke",
        ),
        TableColumn("api", "API that it uses and that breaks; null where none does"),
        TableColumn("version", "version of the API (kafka)", "code"),
        TableColumn("until", "last release of brokers that understands it"),
        TableColumn("breaks_at", "first release of brokers that does not"),
        TableColumn("requests", "how often it sent that, or anything where nothing breaks", "count"),
        TableColumn("last_time", "when it did last", "time"),
    ),
    _upgrades,
    headline=(
        "protocol", "client_ip", "client_id", "software", "software_version", "software_from", "speaks", "api",
        "version", "breaks_at", "requests", "last_time",
    ),
    order=("breaks_at", "protocol", "client_ip", "client_id", "software", "software_version", "api", "version"),
)  # fmt: skip
