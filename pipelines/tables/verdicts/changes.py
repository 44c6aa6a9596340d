"""What somebody changed before something failed: a cause that the failures themselves do not tell.

A verdict names the last change before its end that may have caused it: of the same topic or group, done by the broker,
and of the sort that its errors, or its kind, speak of.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.capture import Capture
from pipelines.tables.verdicts.verdict import Row, Ruling, sql_list

_SAME_TOPIC = "list_contains({topics}, topic)"
_SAME_GROUP = 'list_contains({groups}, "group")'
_ANY_OF_BOTH = f'({_SAME_TOPIC} or {_SAME_GROUP} or topic is null and "group" is null)'


class Cause(NamedTuple):
    """Changes that may cause a verdict: of a kind, or of the kind `errors` with names that a pattern fits.

    where: a condition on the table `changes`; in braces lists of the verdict's topics and groups
    """

    told: str
    where: str


_OF_ERRORS = (
    Cause(
        r"UNKNOWN_TOPIC_OR_PARTITION|UNKNOWN_TOPIC_ID|Topic(Id|Name)?NotFound|Stream(Id|Name)?NotFound",
        f"action = 'deleted' and thing in ('topic', 'stream') and {_SAME_TOPIC}",
    ),
    Cause(
        r".*AUTHORIZATION_FAILED|AuthorizationError|Unauthorized",
        "(thing = 'acl' and (action = 'deleted' or detail like 'deny %')"
        f" or thing = 'user' and detail like 'permissions=%') and {_ANY_OF_BOTH}",
    ),
    Cause(
        r"SASL_AUTHENTICATION_FAILED|InvalidCredentials|InvalidPassword|InvalidUsername|UserInactive",
        "thing = 'user' and (action = 'deleted' or detail like 'credential %' or detail like 'password %'"
        " or detail like 'name=%' or detail like 'status=%')",
    ),
    Cause(
        r"DELEGATION_TOKEN_(EXPIRED|NOT_FOUND)|InvalidPersonalAccessToken|PersonalAccessTokenExpired",
        "thing in ('delegation token', 'personal access token') and action in ('deleted', 'altered')",
    ),
    Cause(
        r"GROUP_ID_NOT_FOUND|UNKNOWN_MEMBER_ID|ConsumerGroup(Id|Name)?NotFound|SubscriptionNotFound",
        f"action = 'deleted' and thing in ('group', 'subscription') and {_SAME_GROUP}",
    ),
    Cause(
        r"OFFSET_OUT_OF_RANGE",
        f"(thing in ('records', 'offsets') or detail like 'retention.%') and {_SAME_TOPIC}",
    ),
    Cause(
        r"MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE",
        f"(detail like 'max.message.bytes=%' and {_SAME_TOPIC} or detail like 'message.max.bytes=%')",
    ),
    Cause(r"NOT_ENOUGH_REPLICAS.*", f"detail like 'min.insync.replicas=%' and (topic is null or {_SAME_TOPIC})"),
    Cause(r"THROTTLING_QUOTA_EXCEEDED", "thing = 'quota'"),
    Cause(
        r"INVALID_TXN_STATE|INVALID_PRODUCER_EPOCH|PRODUCER_FENCED",
        f"thing = 'transaction' and detail = 'aborted' and {_SAME_TOPIC}",
    ),
    Cause(r"IncompatibleSchema", f"thing = 'schema' and {_SAME_TOPIC}"),
)
_OF_KINDS = (
    Cause("throttled", "thing = 'quota'"),
    Cause("messages_skipped|offsets_moved_back", f"thing in ('offsets', 'records', 'subscription') and {_ANY_OF_BOTH}"),
    Cause("leader_moved", f"thing = 'partition' and {_SAME_TOPIC}"),
    Cause("transactions_aborted", "thing = 'transaction'"),
)
_NAMED_BY_ERRORS = ("errors", "not_authorized", "auth_refused", "producer_fenced")


def with_changes(capture: Capture, rulings: Iterable[Ruling]) -> list[Ruling]:
    """Verdicts, with who changed before what they are about, where that may have caused them and was captured."""
    return [_with_change(capture, ruling) for ruling in rulings]


def _with_change(capture: Capture, ruling: Ruling) -> Ruling:
    wanted = list(_causes(ruling))
    if not wanted or not capture.may_have("events"):
        return ruling
    row = ruling.rows
    lists = {name: _list(row[name]) for name in ("topics", "groups")}
    where = " or ".join(f"({cause.where.format(**lists)})" for cause in wanted)
    found = capture.rows(f"""
        select * from v_changes
        where result = 'ok' and ({where}) and epoch_us(time) <= {say.micros(row["last_time"])}
        order by time desc, packet desc limit 1""")
    if not found:
        return ruling
    return replace(ruling, detail=" ".join(filter(None, (_sentence(found[0]), ruling.detail))))


def _causes(ruling: Ruling) -> Iterable[Cause]:
    """The causes that a verdict may have."""
    if ruling.kind in _NAMED_BY_ERRORS:
        names = [name for name in (ruling.rows.get("cause"), *(ruling.rows.get("names") or ())) if name]
        yield from (cause for cause in _OF_ERRORS if any(re.fullmatch(cause.told, name) for name in names))
    yield from (cause for cause in _OF_KINDS if re.fullmatch(cause.told, ruling.kind))


def _list(names: Sequence[str] | None) -> str:
    return f"list_value{sql_list(names or [''])}"


def _sentence(change: Row) -> str:
    """`cleaner on 10.0.0.2 deleted topic orders before, packet 7 of a.pcap.`"""
    who = say.client(" ".join(filter(None, (change["client_ip"], change["client_id"]))))
    login = f" (as {change['principal']})" if change["principal"] else ""
    what = f"{change['thing']} {say.topic(change['subject'])}" if change["subject"] else f"a {change['thing']}"
    more = change["detail"] if change["action"] == "altered" or change["thing"] == "acl" else None
    if more and change["before"]:
        more += f", before {change['before']}"
    told = f" ({more})" if more else ""
    return f"{who}{login} {change['action']} {what}{told} before, {say.place(change['file'], change['packet'])}."
