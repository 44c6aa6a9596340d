"""Who uses the brokers, with what software and which versions of the APIs."""

from __future__ import annotations

from pipelines.sql.words import HAS_REQUEST, LOGGED_IN, SERVER
from pipelines.tables.dialect import LISTED, Dialect
from pipelines.tables.table import CONNECTION, Ask, Table, TableColumn, alike, count_if, equal

_MINUTE_US = 60_000_000
_CLIENT = ("protocol", "client_ip", "client_id", "api")


def _clients(d: Dialect, ask: Ask) -> str:
    conn, client = ", ".join(CONNECTION), ", ".join(_CLIENT)
    return f"""
        with used as (
            select {client}, version, {SERVER} as server,
                case when {removed_in_kafka_4()} then version end as removed, count(*) as requests,
                {count_if("status = 'error'")} as errors, min(time) as first_time, max(time) as last_time
            from exchanges where {HAS_REQUEST} group by {client}, api_code, version, server_ip, server_port
        ), software as (
            select {conn}, nullif(concat_ws(' ', client_software, client_version), '') as software
            from all_connections where client_software is not null
        ), logins as (
            select {conn}, {d.first("subject", f"-{d.micros('time')}", "-packet")} as principal
            from events where {LOGGED_IN} group by {conn}
        ), minutes as (
            select protocol, client_ip, count(*) as opened
            from connections group by protocol, client_ip, floor({d.micros("start_time")} / {_MINUTE_US})
        ), peaks as (
            select protocol, client_ip, max(opened) as opened from minutes group by protocol, client_ip
        ), connected as (
            select {client}, count(*) as connections, {d.listed("software")} as software,
                {d.listed("principal")} as principals
            from (select distinct {client}, {conn} from exchanges where {HAS_REQUEST}) o
                left join software s on {equal(CONNECTION, "o", "s")}
                left join logins l on {equal(CONNECTION, "o", "l")}
            group by {client}
        ), known as (
            select {client}, {d.numbers("version")} as versions, {d.numbers("removed")} as removed,
                min(version) as version_min, max(version) as version_max, {d.total("requests")} as requests,
                {d.total("errors")} as errors, min(first_time) as first_time, max(last_time) as last_time,
                {d.listed("server")} as servers
            from used group by {client}
        )
        select k.protocol, k.client_ip, k.client_id, k.api, software, versions, removed, version_min, version_max,
            requests, errors, connections, opened as connects_peak, first_time, last_time, servers, principals
        from known k
            join connected c on {alike(_CLIENT, "k", "c")}
            left join peaks p on k.protocol = p.protocol and k.client_ip = p.client_ip
    """


def removed_in_kafka_4() -> str:
    """Whether an exchange uses a version of an API that Kafka 4.0 removed."""
    from dissectors.kafka.releases import refused_since

    ranges = [
        f"api_code = {key} and version between {first} and {last}"
        for key, refused in refused_since("4.0").items()
        for first, last in refused.ranges
    ]
    return f"protocol = 'kafka' and ({' or '.join(ranges)})"


CLIENTS = Table(
    "clients",
    f"Who uses which API, and in which versions: one row per client and API. Lists hold at most {LISTED} names.",
    (
        TableColumn("protocol", "kafka, pulsar or iggy"),
        TableColumn("client_ip", "its address"),
        TableColumn("client_id", "what it calls itself"),
        TableColumn("api", "API it uses"),
        TableColumn("software", "client libraries and versions that it gave", "list"),
        TableColumn("versions", "versions of the API that it used", "list"),
        TableColumn("removed", "versions among them that Kafka brokers refuse since 4.0: update this client", "list"),
        TableColumn("version_min", "lowest version", "code"),
        TableColumn("version_max", "highest version", "code"),
        TableColumn("requests", "how often", "count"),
        TableColumn("errors", "answers that hold an error", "count"),
        TableColumn("connections", "over how many connections", "count"),
        TableColumn("connects_peak", "most connections that this address opened within a minute", "count"),
        TableColumn("first_time", "first request", "time"),
        TableColumn("last_time", "last request", "time"),
        TableColumn("servers", "brokers that it uses", "list"),
        TableColumn("principals", "names that it logged in with, and subjects of its TLS certificates", "list"),
    ),
    _clients,
    headline=(
        "protocol", "client_ip", "client_id", "principals", "software", "api", "versions", "removed", "requests",
        "errors", "connections", "connects_peak",
    ),
    order=("requests desc", "protocol", "client_ip", "client_id", "api"),
)  # fmt: skip
