"""Which changes may cause which failures, and how a change is told: one relation for verdicts and the table `errors`.

A failure names the last change before it that the broker did, of the same topic or group, and of the sort that its
error, or the kind of its verdict, speaks of.
"""

from __future__ import annotations

from typing import NamedTuple

from pipelines.formats.who import LONGEST_ID
from pipelines.tables.dialect import Dialect

_ANY_OF_BOTH = "({topic} or {group} or {everywhere})"


class Cause(NamedTuple):
    """Changes that may cause failures.

    errors: names of errors, as a regular expression; kinds: kinds of verdicts, likewise; "" for none
    where: a condition on rows of `changes`; {topic}, {group}, {user}: whether a change is about a topic or group of
        the failure, or a user that failed, {everywhere}: whether it is about no topic or group
    """

    errors: str
    kinds: str
    where: str


CAUSES = (
    Cause(
        "UNKNOWN_TOPIC_OR_PARTITION|UNKNOWN_TOPIC_ID|(Topic|Stream)(Id|Name)?NotFound|ResourceNotFound",
        "",
        "action = 'deleted' and thing in ('topic', 'stream') and {topic}",
    ),
    Cause(
        ".*AUTHORIZATION_FAILED|AuthorizationError|Unauthorized",
        "",
        "(thing = 'acl' and (action = 'deleted' or detail like 'deny %')"
        f" or thing = 'user' and detail like 'permissions=%' and {{user}}) and {_ANY_OF_BOTH}",
    ),
    Cause("Unauthenticated", "", "thing = 'user' and action = 'deleted' and {user}"),
    Cause(
        "SASL_AUTHENTICATION_FAILED|InvalidCredentials|InvalidPassword|InvalidUsername|UserInactive",
        "",
        "thing = 'user' and {user} and (action = 'deleted' or detail like 'credential %' or detail like 'password %'"
        " or detail like 'name=%' or detail like 'status=%')",
    ),
    Cause(
        "DELEGATION_TOKEN_(EXPIRED|NOT_FOUND)|InvalidPersonalAccessToken|PersonalAccessTokenExpired",
        "",
        "thing in ('delegation token', 'personal access token') and action in ('deleted', 'altered')",
    ),
    Cause(
        "GROUP_ID_NOT_FOUND|UNKNOWN_MEMBER_ID|ConsumerGroup(Id|Name)?NotFound|SubscriptionNotFound",
        "",
        "action = 'deleted' and thing in ('group', 'subscription') and {group}",
    ),
    Cause("OFFSET_OUT_OF_RANGE", "", "(thing in ('records', 'offsets') or detail like 'retention.%') and {topic}"),
    Cause(
        "MESSAGE_TOO_LARGE|RECORD_LIST_TOO_LARGE",
        "",
        "(detail like 'max.message.bytes=%' and {topic} or detail like 'message.max.bytes=%')",
    ),
    Cause("NOT_ENOUGH_REPLICAS.*", "", "detail like 'min.insync.replicas=%' and (topic is null or {topic})"),
    Cause("THROTTLING_QUOTA_EXCEEDED", "throttled", "thing = 'quota'"),
    Cause(
        "INVALID_TXN_STATE|INVALID_PRODUCER_EPOCH|PRODUCER_FENCED",
        "",
        "thing = 'transaction' and detail = 'aborted' and {topic}",
    ),
    Cause("IncompatibleSchema", "", "thing = 'schema' and {topic}"),
    Cause("NOT_LEADER_OR_FOLLOWER|FENCED_LEADER_EPOCH", "leader_moved|out_of_sync", "thing = 'partition' and {topic}"),
    Cause(
        "",
        "messages_skipped|offsets_moved_back",
        "(thing in ('offsets', 'records', 'subscription') or detail = 'purged' or detail like 'message_expiry=%' or "
        "detail like 'max_topic_size=%' or action = 'deleted' and thing in ('stream', 'topic') and protocol = 'iggy')"
        f" and {_ANY_OF_BOTH}",
    ),
    Cause("", "transactions_aborted", "thing = 'transaction'"),
)

_PLAIN_SUBJECT = "regexp_replace(subject, '^persistent://', '')"
SENTENCE = f"""concat(
    case when client_id is null then '' when regexp_extract(client_id, '^[0-9]+$', 0) <> ''
        then concat('client ', client_id, ' on ') else concat(substr(client_id, 1, {LONGEST_ID}), ' on ') end,
    coalesce(client_ip, 'a client'),
    case when principal is null then '' else concat(' (as ', principal, ')') end, ' ', action, ' ',
    case when subject is null then concat('a ', thing) else concat(thing, ' ', {_PLAIN_SUBJECT}) end,
    case when detail is null or not (action = 'altered' or thing = 'acl') then ''
        else concat(' (', detail, case when before is null then '' else concat(', before ', before) end, ')') end,
    ' before, packet ', cast(packet as string), ' of ', regexp_extract(coalesce(file, ''), '[^/]*$', 0), '.')"""
"""changes: `cleaner on 10.0.0.2 deleted topic orders before, packet 7 of a.pcap.`"""


def told_by(d: Dialect, where: str, topic: str, group: str, user: str) -> str:
    """A Cause's condition. topic, group, user: whether a change is about one of the failure, in SQL.

    Of users only Iggy's are compared, whose names are those of clients; it may name them by their numbers.
    """
    user = f"(protocol <> 'iggy' or regexp_extract(subject, '^[0-9]+$', 0) <> '' or {user})"
    everywhere = f"topic is null and {d.quoted('group')} is null"
    return where.format(topic=topic, group=group, user=user, everywhere=everywhere)
