"""Errors in answers: which a later request of the same client got past, and which not; rights and logins apart.

unit     the work itself: a batch that was sent, a position that was fetched from; of other requests the client, what it
         asked, of which topic or group
failing  since when: an error since it was answered, a batch since it was sent first
healed   errors whose work was done after all: that batch stored, reading on at that position, a later success of the
         same request; a note, unless one of them took OUTAGE_NS or longer to heal
refused  batches that no broker stored: messages that are lost to their readers
asked    errors that only answer a question: that something is there already, or is not there
removed  what clients that are not in a group, or no longer, ask of it as its members
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from dissectors.session.protocols import error_meaning
from pipelines.tables.table import CONNECTION
from pipelines.tables.transactions import NOT_THERE
from pipelines.tables.verdicts import say
from pipelines.tables.verdicts.advice import advice_on
from pipelines.tables.verdicts.capture import HEARD, MISMATCHED, MOVED, Capture
from pipelines.tables.verdicts.check import SomeRows, needs
from pipelines.tables.verdicts.impact import of_counted
from pipelines.tables.verdicts.kinds import CRITICAL, KINDS, NOTE, REFUSED
from pipelines.tables.verdicts.leader_moved import LEADER_ELSEWHERE
from pipelines.tables.verdicts.taken import backlog_of, taken_by
from pipelines.tables.verdicts.thresholds import BEATS, OUTAGE_NS, RETRY_US, SESSION_NS, SOON_US
from pipelines.tables.verdicts.told import said, words
from pipelines.tables.verdicts.verdict import Row, Ruling, sql_list

LOGIN_REFUSED = (
    "SASL_AUTHENTICATION_FAILED", "UNSUPPORTED_SASL_MECHANISM", "ILLEGAL_SASL_STATE", "DELEGATION_TOKEN_EXPIRED",
    "UNACCEPTABLE_CREDENTIAL", "AuthenticationError", "InvalidCredentials", "InvalidUsername",
    "InvalidPassword", "UserInactive", "InvalidPersonalAccessToken", "PersonalAccessTokenExpired", "AccessTokenMissing",
    "InvalidAccessToken",
)  # fmt: skip
"""Names of errors by which a broker refuses a login."""
FENCED = ("PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "ProducerFenced")
"""Names of errors by which a broker turns down a producer whose place another has taken."""
CORRUPT = ("CORRUPT_MESSAGE", "ChecksumError")
"""Names of errors by which a receiver says that a checksum does not hold."""

NO_LOGIN = "Unauthenticated"
"""The name of the error by which Iggy refuses a request of a client that has not logged in."""

_LOGINS = ("SaslAuthenticate", "LOGIN_USER", "LOGIN_WITH_PERSONAL_ACCESS_TOKEN")
_NO_RIGHT = "(e.name like '%AUTHORIZATION_FAILED' or e.name in ('AuthorizationError', 'Unauthorized'))"
_HEARTBEATS = ("Heartbeat", "ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")
_GROUP_APIS = ("JoinGroup", "SyncGroup", "OffsetCommit", "TxnOffsetCommit", *_HEARTBEATS)
_REMOVED = f"""(e.name in ('UNKNOWN_MEMBER_ID', 'FENCED_MEMBER_EPOCH')
    and e.api in {sql_list((*_HEARTBEATS, "OffsetCommit", "TxnOffsetCommit"))})"""
_LOOKING = "^(GET_|Describe|List|Find|Metadata|LOOKUP|PARTITIONED_METADATA|.*Describe$|DELETE_|Delete)"
_ASKED = f"""(
    regexp_matches(e.name, '(?i)already_?exists|^election_not_needed$')
    or (regexp_matches(e.name, '(?i)not_?found|^unknown_topic') and regexp_matches(e.api, '{_LOOKING}')))"""
_SENDING = ("Produce", "SEND", "SEND_MESSAGES")
"""Requests whose work is a batch: only that batch, stored, heals an error."""
_OF_A_BROKER = ("KAFKA_STORAGE_ERROR", "LOG_DIR_NOT_FOUND", "UNKNOWN_SERVER_ERROR")  # whichever is asked
_FAMILY = f"case when api in {sql_list(_GROUP_APIS)} then 'group' else api end"

# one row for each answer and name of an error, with whether and when it healed; `left_out`: a condition on rows `e`
_SEEN = f"""
    with named as (
        select e.* exclude ("group", until),
            coalesce(e.name, 'error ' || e.code) as what, x."group" as "group",
            {_FAMILY.replace("api", "e.api")} as family,
            case when e.name in {sql_list(LOGIN_REFUSED)} then 'login'
                when x.kind = 'push' then 'unasked' when {_ASKED} then 'asked'
                when e.api in {sql_list(_LOGINS)} then 'login'
                when e.name = '{NO_LOGIN}' then 'stranger' when {_NO_RIGHT} then 'right'
                when e.name in {sql_list(FENCED)} then 'fenced'
                when e.name = 'FENCED_INSTANCE_ID' then 'instance' when {_REMOVED} then 'removed'
                when e.name = 'INVALID_RECORD_STATE' then 'unlocked' when e.among_brokers then 'broker'
                when e.name in {sql_list(CORRUPT)} then 'corrupt' when e.name in {sql_list(NOT_THERE)} then 'over'
                when e.name = 'TransactionConflict' then 'conflict'
                when x.kind = 'orphan' and x.api is null then 'orphan' else 'failed' end as sort,
            case when e.api in {sql_list(_SENDING)} then coalesce(x.time, e.time) else e.time end as failing,
            coalesce(x.time, e.time) as asked, e.topics[1] as topic_asked, e.client as who, w.site is not null as whole
        from v_errors e left join exchanges x on e.site = x.site and e.exchange_id = x.exchange_id
            left join v_whole w on e.site = w.site and e.connection = w.connection and e.incarnation = w.incarnation
        where not {{left_out}}
        qualify row_number() over (
            partition by e.site, e.exchange_id, e.name order by e.time, e.packet, e.topic, e.partition) = 1
    ), worked as (
        select protocol, client as who, {_FAMILY} as family, "group", time, until,
            unnest(list_concat([null::varchar], list_distinct(coalesce(topics, [])))) as topic_asked
        from v_calls c semi join named n on c.client = n.who and {_FAMILY.replace("api", "c.api")} = n.family
        where kind = 'call' and status = 'ok'
    ), good as (
        select * replace (unnest(case when "group" is null then [null] else [null, "group"] end) as "group") from worked
    ), followed as (
        select n.*, case
                when n.api in {sql_list(_SENDING)} and b.site is not null then b.done_at
                when n.api = 'Fetch' and r.site is not null then r.read_at
                when n.sort = 'removed' then least(j.time, g.until)
                else g.until end as healed_time,
            coalesce(b.refused, 0) as refused, b.refused_messages, r.back,
            case when m.kind = 'left' then epoch_us(n.asked) - epoch_us(m.time) end * 1000 as left_ago_ns,
            (epoch_us(n.asked) - epoch_us(q.time)) * 1000 as silent_ns
        from named n asof left join good g on n.protocol = g.protocol and n.who = g.who and n.family = g.family
            and n.topic_asked is not distinct from g.topic_asked and n."group" is not distinct from g."group"
            and n.time < g.time
        asof left join (select client, "group", time, kind from v_events where kind in ('joined', 'left')) m
            on n.who = m.client and n."group" = m."group" and n.asked > m.time
        asof left join (select client, "group", time from v_events where kind = 'joined') j
            on n.who = j.client and n."group" = j."group" and n.time < j.time
        asof left join (
            select c.client, c."group", c.time from v_calls c
                semi join (from named where sort = 'removed') r on c.client = r.who and c."group" = r."group"
        ) q on n.who = q.client and n."group" = q."group" and n.asked > q.time
        left join (
            select site, exchange_id, case when bool_and(done_at is not null) then max(done_at) end as done_at,
                count(*) filter (done_at is null and nth_last = 1) as refused,
                sum(records) filter (done_at is null and nth_last = 1) as refused_messages
            from v_sent where outcome = 'error' group by all
        ) b on n.site = b.site and n.exchange_id = b.exchange_id
        left join (
            select site, exchange_id, case when bool_and(read_at is not null) then max(read_at) end as read_at,
                max(value - read_from) as back
            from v_readagain group by all
        ) r on n.site = r.site and n.exchange_id = r.exchange_id
    )
    select *, time as until,
        sort not in ('instance', 'unlocked', 'over', 'conflict') and bool_and(healed_time is not null) over (
            partition by protocol, who, family, topic_asked, "group", what) as healed
    from followed"""
_DISCARDED = "api = 'ACK' and scope = 'message'"  # what a consumer says of a damaged message: its own verdict
_BAD_HERE = (
    "sort = 'corrupt' and (site, exchange_id) in (select (site, exchange_id) from batches where verdict = 'bad')"
)
_SKIPPED = "healed and what = 'OFFSET_OUT_OF_RANGE' and api = 'Fetch'"
_CAUSE = "case when sort not in ('login', 'fenced') then what end"  # the others are one cause, whatever its names
_LOG_ENDS = (
    "See why the log ended before that offset: its topic was made anew, or a leader took over that lacked messages. "
    "What is read again may have been processed before."
)
_MORE = """
    bool_or(coalesce(retriable, false)) as retriable, sum(refused)::bigint as refused,
    sum(refused_messages)::bigint as refused_messages,
    names_of(api) as apis, names_of(what) as names, max(back) as back,
    max(epoch_us(healed_time) - epoch_us(failing)) as after_us,
    case when bool_and(left_ago_ns is not null) then max(left_ago_ns) end as left_ago_ns, max(silent_ns) as silent_ns,
    any_value(code) as code,
    arg_min(message, row(time, file, packet)) as message, bool_and(whole) as whole,
    case when bool_and(retriable) then (select max(epoch_us(end_time)) from connections) - min(epoch_us(time)) end
        as left_us"""


@needs(SomeRows("v_errors", "true"))
def errors(capture: Capture) -> Iterator[Ruling]:
    """All errors but those that are part of normal work, by name; refused logins and fenced producers together.

    Batches that were refused for good are told apart from other requests that failed alike.
    """
    told = [
        f"what in {sql_list(LEADER_ELSEWHERE)} and {capture.kept(MOVED)}",
        f"(healed or sort = 'unasked') and {capture.explained()}",
        capture.kept(HEARD),
        *([_SKIPPED] if any(one.kind == "messages_skipped" for one in capture.told) else ()),
        *([_BAD_HERE] if any(one.kind == "bad_checksum" for one in capture.told) else ()),
        _DISCARDED,
    ]
    seen = f"""
        select *, {_CAUSE} as cause, sort = 'failed' and api in {sql_list(_SENDING)}
            and bool_or(refused > 0) over (partition by protocol, sort, what, healed) as of_refused
        from ({_SEEN.format(left_out=capture.kept(MISMATCHED, CONNECTION, "e"))})
        where not (({") or (".join(told)}))"""
    for row in capture.together(seen, ["protocol", "sort", "cause", "healed", "of_refused"], _MORE):
        row["taken"] = taken_by(capture, row)
        ruling = _SAID.get(row["sort"], _sentence)(row)
        if ruling.kind in ("errors", "auth_refused") and ruling.advice is None:
            usual = KINDS[ruling.kind].advice if ruling.kind == "auth_refused" else None
            known = backlog_of(capture, row) or advice_on(row["cause"] or "", row["message"]) or usual
            said_before = known and ruling.level == CRITICAL  # its detail is shown, which quotes the broker
            quoted = None if said_before else row["message"] and f"The broker said: {say.words(row['message'])}."
            ruling = ruling._replace(advice=" ".join(filter(None, (known, quoted))) or None)
        if (row["cause"] or "").startswith("NOT_ENOUGH_REPLICAS"):
            why = [one.sentence for one in capture.told if one.kind == "out_of_sync"]
            ruling = ruling._replace(detail=" ".join([*why, *filter(None, [ruling.detail])]))
        yield ruling


def _what(row: Row, how_long: str = "") -> str:
    """`Produce of nw-k-p for topic nw-kill failed 4 times with REQUEST_TIMED_OUT`."""
    asked = f"{say.apis(row['apis'])} of {say.clients(row)}{_about(row)}"
    where = f" at {say.listed(row['servers'], 'broker')}" if row["cause"] in _OF_A_BROKER else ""
    return f"{asked} failed {say.times(row['count'])} with {row['cause']}{where}{how_long}{row['taken']}"


def _failed(row: Row) -> Ruling:
    what = _what(row)
    if row["healed"]:
        after = max(row["after_us"] * 1000, 0)
        if row["cause"] == "OFFSET_OUT_OF_RANGE" and (row["back"] or 0) > 0:
            back = f"it went back by {'up to ' if row['count'] > 1 else ''}{say.counted(row['back'], 'offset')}"
            return Ruling("errors", f"{what}; {back} and read on there.", row, _explained(row), advice=_LOG_ENDS)
        sent = row["apis"] and set(row["apis"]) <= set(_SENDING)
        done = "the same batches were stored" if sent else "a retry succeeded"
        if after >= OUTAGE_NS and (row["retriable"] or set(row["apis"]) <= {"PRODUCER", "SUBSCRIBE"}):
            text = f"{_what(row, f', for {say.span(after)}')}, until {done}."
            return Ruling("errors", text, row, _explained(row))
        text = f"{what}; {done} after {say.span(after)}."
        return Ruling("errors", text, row, severity=NOTE, advice=f"Nothing: {done}.")
    if not row["whole"]:
        text = f"{what}; the capture lacks bytes, so what the client did then may be missing from it."
        return Ruling("errors", text, row, severity=NOTE)
    if row["left_us"] is not None and row["left_us"] < RETRY_US:
        text = f"{what}; the capture ends {say.span(row['left_us'] * 1000)} later, perhaps before a retry."
        return Ruling("errors", text, row, _explained(row), severity=NOTE)
    if row["refused"]:
        return _refused(row)
    if set(row["apis"] or ()) <= {"PushTelemetry", "GetTelemetrySubscriptions"} and row["apis"]:
        return Ruling("errors", f"{what}: metrics of the client, not its work.", row, _explained(row), severity=NOTE)
    if row["after_us"] is not None:
        text = f"{what}; other attempts succeeded, the last of these did not."
        return Ruling("errors", text, row, _explained(row))
    return Ruling("errors", f"{what}; no later attempt succeeded.", row, _explained(row))


_WRITTEN = ("REQUEST_TIMED_OUT", "NOT_ENOUGH_REPLICAS_AFTER_APPEND")
"""Errors about a batch that the leader has written, and too few replicas in time."""


def _refused(row: Row) -> Ruling:
    """Batches that no broker stored, however often they were sent."""
    lost = row["refused_messages"]
    messages = say.counted(row["refused"], "batch") if lost is None else say.counted(lost, "message")
    one = (lost if lost is not None else row["refused"]) == 1
    written = row["cause"] in _WRITTEN
    what = "never confirmed" if written else "refused for good"
    text = f"{messages} of {say.clients(row)}{_about(row)} {'was' if one else 'were'} {what}: "
    text += f"{say.apis(row['apis'])} failed {say.times(row['count'])} with {row['cause']}, and no attempt to send "
    text += f"{'it' if one else 'them'} again was accepted."
    text += f" The leader may have stored {'it' if one else 'them'} all the same." if written else ""
    impacts = of_counted(REFUSED, row)
    work = [one | {"messages": lost if len(impacts) == 1 else None} for one in impacts]
    return Ruling("errors", text, row, _explained(row), severity=CRITICAL, work=work)


def _removed(row: Row) -> Ruling:
    """Requests of clients that their group does not know: what these read and did not commit is read again."""
    be, they, who = say.verb(row, "was", "were"), say.verb(row, "it", "they"), say.clients(row)
    group, left, silent = say.named(row["groups"], "group") or "a group", row["left_ago_ns"], row["silent_ns"] or 0
    text = f"{who} {be} not, or no longer, in {group} when "
    advice = "A group removes members whose heartbeats do not come for session.timeout.ms, or that join too late."
    if left is not None:
        text = f"{who} had left {group} {say.span(left)} before "
        advice = "A consumer leaves its group when its application does not poll for max.poll.interval.ms."
    text += f"{they} sent {say.apis(row['apis'])}: {row['cause']}, {say.times(row['count'])}"
    paused = left is None and silent >= SESSION_NS
    text += f"; {they} had been silent for {say.span(silent)}" if paused else ""
    text += f"; {they} {be} a member again after {say.span(max(row['after_us'], 0) * 1000)}." if row["healed"] else "."
    again = paused or not set(row["apis"]) <= set(_HEARTBEATS)
    if again:
        advice += " Messages read since the last commit are read again."
    if "OffsetCommit" in row["apis"]:
        advice += " While a group has members, only they may commit."
    return Ruling("errors", text, row, severity=NOTE if row["healed"] and not again else None, advice=advice)


_CONTROLLERS = "Look at the controllers: which of them led at that time, and whether a majority was up."


def _among_brokers(row: Row) -> Ruling:
    """What brokers and controllers refuse each other: usual while leaders change, which takes moments."""
    lasted_us = say.micros(row["last_time"]) - say.micros(row["first_time"])
    took_us = row["after_us"] if row["healed"] else lasted_us
    retried = "; a retry succeeded" if row["healed"] else ""
    if min(took_us, lasted_us) >= SOON_US and row["count"] * SOON_US >= BEATS * lasted_us:
        text = f"{_what(row)}, between brokers, for {say.span(took_us * 1000)}{retried}."
        advice = _CONTROLLERS if row["cause"] == "NOT_CONTROLLER" else None
        return Ruling("errors", text, row, _explained(row), advice=advice)
    nothing = "Nothing: while leaders change, brokers refuse requests that come too late."
    text = f"{_what(row)}, between brokers{retried}."
    return Ruling("errors", text, row, _explained(row), severity=NOTE, advice=nothing)


class _Sentence(NamedTuple):
    """What is said of rows of a sort that need no more than a sentence, as `told.py` says it."""

    text: str
    kind: str = "errors"
    advice: str | None = None
    severity: str | None = None


_SENTENCES = {
    "unasked": _Sentence("The broker reported {cause} to {who}{about} {count:times}, not as an answer to a request."),
    "orphan": _Sentence("{who} got {count:answer} with {cause} to requests that are not known.", advice=
        "Look at what came before: the requests may precede the capture, or be bytes that the broker misread."),
    "asked": _Sentence("{apis} of {who}{about} got {cause} {count:times}.", severity=NOTE, advice=
        "Nothing, if the client only asked whether it exists."),
    "right": _Sentence("{who} {those:?is/are} not authorized for {apis}{about_on}: {cause}, {count:times}"
        "{refused_messages:; ~message/was/were~ refused for good}.", "not_authorized"),
    "stranger": _Sentence("{who} sent {apis}{about_on} without being logged in: {cause}, {count:times}"
        "{refused_messages:; ~message/was/were~ refused for good}.",
        "not_authorized", "Let the client log in first, and after each new connection."),
    "login": _Sentence("The broker refused {count:login} of {who}: {names:names}.", "auth_refused"),
    "fenced": _Sentence("{who}{about} {those:?was/were} fenced {count:times}, as another producer holds the id or "
        "topic: {names:names}.", "producer_fenced"),
    # static members of a group with one id: joining again heals nothing
    "instance": _Sentence("{who}{about} {those:?was/were} fenced {count:times}: another member uses the same "
        "group.instance.id.",
        advice="Give each member a group.instance.id of its own: of two with the same, each takes the other's place."),
    # acknowledgements of a share group's messages: what comes next heals nothing
    "unlocked": _Sentence("{who} acknowledged messages{about_it} that {those:?it/they} did not, or no longer, hold: "
        "{cause}, {count:times}.",
        advice="A member holds a message for group.share.record.lock.duration.ms (30 s), then others get it, and it "
        "may be processed twice: let it take fewer at a time."),
    # transactions of Pulsar, of which each is another one: the next heals nothing
    "over": _Sentence("{who} asked for {apis}{about_it} in transactions that were over, or that their coordinator does "
        "not know: {cause}, {count:times}.",
        advice="A transaction that is not ended within its time-out is aborted, and what it wrote has to be produced "
        "again: see what took long, or whether the broker of its coordinator was restarted."),
    "conflict": _Sentence("{who} acknowledged messages{about_it} in transactions while another one holds them: "
        "{cause}, {count:times}.",
        advice="See which other transaction acknowledged these messages and has not ended: until then it keeps them."),
    "corrupt": _Sentence("The broker rejected {count:request} of {who}{about} as corrupt: {cause}.",
        "refused_as_corrupt"),
}  # fmt: skip
"""By sort."""


def _sentence(row: Row) -> Ruling:
    known = _SENTENCES[row["sort"]]
    more = {
        "about": _about(row), "about_it": _about(row, "of"), "about_on": _about(row, "on"),
    }  # fmt: skip
    text = said(known.text, words(row) | more)
    return Ruling(known.kind, text, row, _explained(row), severity=known.severity, advice=known.advice)


_SAID = {"failed": _failed, "removed": _removed, "broker": _among_brokers}
"""By sort, where more is to be said."""


def _about(row: Row, word: str = "for") -> str:
    """` for topic A`, ` for group G`."""
    of = say.named(row["topics"], "topic") or say.named(row["groups"], "group")
    return f" {word} {of}" if of else ""


def _explained(row: Row) -> str | None:
    """What the error means, where it is one, and the text that came with the first."""
    name = row["cause"] or (row["names"][0] if len(row["names"]) == 1 else None)
    meaning = name and error_meaning(row["protocol"], row["code"], name)
    means = f"{name}: {meaning}." if meaning else None
    quoted = f"The broker says: {row['message'].rstrip('. ')}." if row["message"] else None
    return " ".join(filter(None, (means, quoted))) or None
