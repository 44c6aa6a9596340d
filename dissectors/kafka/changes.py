"""Events of requests that change a cluster: who created, deleted or altered what, and how the broker answered.

Requests of administrators are rare, so they and their answers are decoded in full, by their schema. A request that only
asks whether it would be valid changes nothing. What a broker refused is told too, with its error code.

Source: the schemas of the messages; of numbers AclOperation, AclPermissionType, ResourceType, PatternType,
ScramMechanism, ElectionType and AlterConfigOp of the Java client.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from dissectors.kafka.happened import Body, Happened, setting, settings

DEFAULT = "<default>"
"""Stands for the value of a setting that goes back to its default."""

OFFSET_COMMIT, WRITE_TXN_MARKERS = 8, 27
_NO_GENERATION = -1
_TOPIC, _GROUP = 2, 3
_CONFIGURED = {_TOPIC: "topic", 4: "broker", 8: "broker logger", 16: "client metrics", 32: "group"}
"""ConfigResource.Type"""
_SIGNS = {0: "=", 2: "+=", 3: "-="}
"""AlterConfigOp.OpType; 1 deletes the setting."""
_RESOURCES = {1: "anything", _TOPIC: "topic", _GROUP: "group", 4: "cluster", 5: "transactional id",
              6: "delegation token", 7: "user"}  # fmt: skip
_OPERATIONS = (
    "UNKNOWN", "ANY", "ALL", "READ", "WRITE", "CREATE", "DELETE", "ALTER", "DESCRIBE", "CLUSTER_ACTION",
    "DESCRIBE_CONFIGS", "ALTER_CONFIGS", "IDEMPOTENT_WRITE", "CREATE_TOKENS", "DESCRIBE_TOKENS", "TWO_PHASE_COMMIT",
)  # fmt: skip
_PERMISSIONS = {1: "any", 2: "deny", 3: "allow"}
_LITERAL, _PREFIXED = 3, 4
_MECHANISMS = {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}
_ELECTIONS = {0: "preferred", 1: "unclean"}
_POLICY = "cleanup.policy"

Told = Mapping[str, Any]
Reader = Callable[[Told, Body], Iterator[Happened]]
"""(body of the request, {} where it was not captured; body of its answer) -> what changed, or was refused"""


# --- topics ---


def _topics_created(asked: Told, body: Body) -> Iterator[Happened]:
    wanted = {one["name"]: one for one in asked.get("topics") or () if "name" in one}
    for one in body.get("topics") or ():
        name, code = one.get("name"), one.get("errorCode")
        mine = wanted.get(name, {})
        configs = mine.get("configs") or ()
        shape = (
            ("partitions", one.get("numPartitions", mine.get("numPartitions"))),
            ("replicas", one.get("replicationFactor", mine.get("replicationFactor"))),
        )
        pairs = [(key, value) for key, value in shape if value is not None and value >= 0]
        text = settings([*pairs, *((config.get("name"), config.get("value")) for config in configs)])
        yield Happened("created", name, number=code, text=text, thing="topic")
        if not code:
            yield from compacted(name, one.get("configs") or configs)


def _topics_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    for one in body.get("responses") or ():
        topic = one.get("name") or topic_id(one.get("topicId"))
        yield Happened("deleted", topic, number=one.get("errorCode"), thing="topic")


def _partitions_created(asked: Told, body: Body) -> Iterator[Happened]:
    counts = {one["name"]: one.get("count") for one in asked.get("topics") or () if "name" in one}
    for one in body.get("results") or ():
        text = setting("partitions", counts.get(one.get("name")))
        yield Happened("altered", one.get("name"), number=one.get("errorCode"), text=text, thing="topic")


def compacted(topic: str | None, configs: Iterable[Body] | None) -> Iterator[Happened]:
    """The event of a topic that keeps the last message of each key only; configs: of the topic."""
    for one in configs or ():
        if one.get("name") == _POLICY and "compact" in (one.get("value") or ""):
            yield Happened("compacted", topic, text=one["value"])


# --- configurations ---


def _configured(asked: Told, body: Body) -> Iterator[Happened]:
    """What AlterConfigs and IncrementalAlterConfigs changed: an event a setting."""
    wanted = {
        (one.get("resourceType"), one.get("resourceName")): one.get("configs") for one in asked.get("resources") or ()
    }
    for one in body.get("responses") or ():
        type_, name = one.get("resourceType"), one.get("resourceName")
        configs, code = wanted.get((type_, name)), one.get("errorCode")
        what = _configurable(type_, name)
        for text in _altered_settings(configs):
            yield Happened("altered", number=code, text=text, **what)
        if type_ == _TOPIC and not code:
            yield from compacted(name, configs)


def _configurable(type_: int | None, name: str | None) -> dict[str, Any]:
    """What a resource of a configuration is: `thing`, and where its name stands."""
    thing = _CONFIGURED.get(type_ or 0, "resource")
    return {"thing": thing, "topic" if type_ == _TOPIC else "subject": name or (None if type_ == _TOPIC else "default")}


def _altered_settings(configs: Iterable[Body] | None) -> Iterator[str | None]:
    """The text of each setting; one without text where none is known."""
    given = list(configs or ())
    if not given:
        yield None
    for one in given:
        operation = one.get("configOperation", 0)
        value = DEFAULT if operation == 1 or one.get("value") is None else one["value"]
        yield setting(one.get("name"), value, _SIGNS.get(operation, "="))


def described(body: Body, longest: int) -> Iterator[Happened]:
    """The settings of topics, brokers and the like, as DescribeConfigs answers; longest: characters of a text."""
    for one in body.get("results") or ():
        if one.get("errorCode"):
            continue
        type_, name = one.get("resourceType"), one.get("resourceName")
        pairs = [(each.get("name"), each["value"]) for each in one.get("configs") or () if each.get("value")]
        for text in _portions(pairs, longest):
            yield Happened("described", text=text, **_configurable(type_, name))
        if type_ == _TOPIC:
            yield from compacted(name, one.get("configs"))


def _portions(pairs: Iterable[tuple[str | None, Any]], longest: int) -> Iterator[str]:
    """Settings in texts of at most `longest` characters, but for a single one that is longer."""
    text = ""
    for name, value in pairs:
        one = setting(name, value)
        if text and len(text) + len(one) + 2 > longest:
            yield text
            text = ""
        text = f"{text}, {one}" if text else one
    if text:
        yield text


# --- rights and users ---


def _acls_created(asked: Told, body: Body) -> Iterator[Happened]:
    results = body.get("results") or ()
    for index, result in enumerate(results):
        creations = asked.get("creations") or ()
        one = creations[index] if index < len(creations) else {}
        yield _acl("created", one, one.get("resourcePatternType", _LITERAL), result.get("errorCode"))


def _acls_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    filters = asked.get("filters") or ()
    for index, result in enumerate(body.get("filterResults") or ()):
        for one in result.get("matchingAcls") or ():
            yield _acl("deleted", one, one.get("patternType", _LITERAL), one.get("errorCode"))
        if result.get("errorCode"):
            one = filters[index] if index < len(filters) else {}
            renamed = {name.removesuffix("Filter"): value for name, value in one.items()}
            yield _acl("deleted", renamed, one.get("patternTypeFilter", _LITERAL), result["errorCode"])


def _acl(kind: str, one: Body, pattern: int, code: int | None) -> Happened:
    """An ACL: subject is who, text what: `allow READ on topic orders from *`."""
    if not one:
        return Happened(kind, number=code, thing="acl")
    type_, name = one.get("resourceType"), one.get("resourceName")
    operation = one.get("operation", 0)
    said = _OPERATIONS[operation] if 0 <= operation < len(_OPERATIONS) else f"operation {operation}"
    resource = _RESOURCES.get(type_ or 0, "resource")
    if name is not None and type_ != 4:
        resource += f"s that begin with {name}" if pattern == _PREFIXED else f" {name}"
    text = f"{_PERMISSIONS.get(one.get('permissionType', 0), '?')} {said} on {resource} from {one.get('host') or '*'}"
    exact = pattern == _LITERAL and name != "*"
    return Happened(
        kind,
        name if exact and type_ == _TOPIC else None,
        group=name if exact and type_ == _GROUP else None,
        subject=one.get("principal"),
        number=code,
        text=text,
        thing="acl",
    )


def _quotas_altered(asked: Told, body: Body) -> Iterator[Happened]:
    codes = {_entity(one): one.get("errorCode") for one in body.get("entries") or ()}
    for one in asked.get("entries") or ():
        entity = _entity(one)
        for op in one.get("ops") or ():
            text = setting(op.get("key"), DEFAULT if op.get("remove") else _plain(op.get("value")))
            yield Happened("altered", subject=entity, number=codes.get(entity), text=text, thing="quota")


def quotas_described(body: Body) -> Iterator[Happened]:
    """The quotas that DescribeClientQuotas found."""
    for one in body.get("entries") or ():
        pairs = [(each.get("key"), _plain(each.get("value"))) for each in one.get("values") or ()]
        if pairs:
            yield Happened("described", subject=_entity(one), text=settings(pairs), thing="quota")


def _entity(one: Body) -> str:
    """Whom a quota is for: `user alice, client-id app`."""
    parts = [f"{each.get('entityType')} {each.get('entityName') or 'default'}" for each in one.get("entity") or ()]
    return ", ".join(sorted(parts, reverse=True))


def _plain(value: Any) -> Any:
    """A number without a fraction of 0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _credentials_altered(asked: Told, body: Body) -> Iterator[Happened]:
    """SCRAM credentials: of whom and by which mechanism, never their salt or password."""
    codes = {one.get("user"): one.get("errorCode") for one in body.get("results") or ()}
    for one in asked.get("deletions") or ():
        mechanism = _MECHANISMS.get(one.get("mechanism"), "SCRAM")
        yield _user("deleted", one.get("name"), codes, f"credential for {mechanism}")
    for one in asked.get("upsertions") or ():
        mechanism = _MECHANISMS.get(one.get("mechanism"), "SCRAM")
        text = f"credential for {mechanism}, iterations={one.get('iterations')}"
        yield _user("altered", one.get("name"), codes, text)


def _user(kind: str, name: str | None, codes: Mapping[Any, Any], text: str) -> Happened:
    return Happened(kind, subject=name, number=codes.get(name), text=text, thing="user")


def _token_created(asked: Told, body: Body) -> Iterator[Happened]:
    owner = ":".join(filter(None, (body.get("principalType"), body.get("principalName"))))
    most = asked.get("maxLifetimeMs", -1)
    text = setting("max.lifetime.ms", most) if most >= 0 else None
    yield Happened("created", subject=owner or None, number=body.get("errorCode"), text=text, thing="delegation token")


def _token_renewed(asked: Told, body: Body) -> Iterator[Happened]:
    text = f"renewed for {asked.get('renewPeriodMs')} ms" if asked.get("renewPeriodMs", -1) >= 0 else "renewed"
    yield Happened("altered", number=body.get("errorCode"), text=text, thing="delegation token")


def _token_expired(asked: Told, body: Body) -> Iterator[Happened]:
    period = asked.get("expiryTimePeriodMs", -1)
    kind, text = ("altered", f"expires after {period} ms") if period >= 0 else ("deleted", None)
    yield Happened(kind, number=body.get("errorCode"), text=text, thing="delegation token")


# --- partitions ---


def _each_partition(topics: Any, name: str = "name", partitions: str = "partitions") -> Iterator[tuple[Any, Any]]:
    """(topic, partition) of lists of topics with partitions, whatever these are."""
    for topic in topics or ():
        for partition in topic.get(partitions) or ():
            yield topic.get(name), partition


def _codes(topics: Any, name: str = "name") -> dict[tuple[Any, Any], Any]:
    """(topic, partition) -> error code, of an answer's topics with their partitions."""
    return {(topic, one.get("partitionIndex")): one.get("errorCode") for topic, one in _each_partition(topics, name)}


def _reassigned(asked: Told, body: Body) -> Iterator[Happened]:
    refused = body.get("errorCode")
    codes = _codes(body.get("responses"))
    for topic, one in _each_partition(asked.get("topics")):
        number = one.get("partitionIndex")
        replicas = one.get("replicas")
        text = "reassignment cancelled" if replicas is None else setting("replicas", " ".join(map(str, replicas)))
        code = refused or codes.get((topic, number))
        yield Happened("altered", topic, number, number=code, text=text, thing="partition")


def _elected(asked: Told, body: Body) -> Iterator[Happened]:
    text = setting("election", _ELECTIONS.get(asked.get("electionType", 0), asked.get("electionType")))
    results = list(_each_partition(body.get("replicaElectionResults"), "topic", "partitionResult"))
    for topic, one in results:
        code = one.get("errorCode")
        yield Happened("altered", topic, one.get("partitionId"), number=code, text=text, thing="partition")
    if body.get("errorCode") and not results:
        for topic, number in _each_partition(asked.get("topicPartitions"), "topic"):
            yield Happened("altered", topic, number, number=body["errorCode"], text=text, thing="partition")


def _records_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    before = {(t, p.get("partitionIndex")): p.get("offset") for t, p in _each_partition(asked.get("topics"))}
    for topic, one in _each_partition(body.get("topics")):
        number, code = one.get("partitionIndex"), one.get("errorCode")
        offset = before.get((topic, number)) if code else one.get("lowWatermark")
        text = None if offset is None else f"before offset {offset}"
        yield Happened("deleted", topic, number, number=code, text=text, thing="records")


def _directories_altered(asked: Told, body: Body) -> Iterator[Happened]:
    paths = {
        (topic, number): one.get("path")
        for one in asked.get("dirs") or ()
        for topic, number in _each_partition(one.get("topics"))
    }
    for topic, one in _each_partition(body.get("results"), "topicName"):
        number = one.get("partitionIndex")
        text = setting("directory", paths.get((topic, number)))
        yield Happened("altered", topic, number, number=one.get("errorCode"), text=text, thing="replica")


# --- groups and transactions ---


def _groups_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    for one in body.get("results") or ():
        yield Happened("deleted", group=one.get("groupId"), number=one.get("errorCode"), thing="group")


def commits_as_no_member(asked: Told) -> bool:
    """Whether an OffsetCommit is of nobody in the group: a tool's, or a consumer's that is assigned its partitions."""
    return asked.get("generationIdOrMemberEpoch") == _NO_GENERATION and not asked.get("memberId")


def _offsets_committed(asked: Told, body: Body) -> Iterator[Happened]:
    """The offsets that `commits_as_no_member` sets; topics are named, or by their ids since version 10."""
    offsets = {
        (topic.get("name"), topic.get("topicId"), one.get("partitionIndex")): one.get("committedOffset")
        for topic in asked.get("topics") or ()
        for one in topic.get("partitions") or ()
    }
    for topic in body.get("topics") or ():
        name, id_ = topic.get("name"), topic.get("topicId")
        for one in topic.get("partitions") or ():
            number = one.get("partitionIndex")
            text = setting("offset", offsets.get((name, id_, number)))
            yield _offsets("altered", asked, name or topic_id(id_), number, one.get("errorCode"), text)


def _offsets_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    refused = body.get("errorCode")
    codes = _codes(body.get("topics"))
    for topic, one in _each_partition(asked.get("topics")):
        number = one.get("partitionIndex")
        yield _offsets("deleted", asked, topic, number, refused or codes.get((topic, number)))


def _share_offsets_altered(asked: Told, body: Body) -> Iterator[Happened]:
    refused = body.get("errorCode")
    codes = _codes(body.get("responses"), "topicName")
    for topic, one in _each_partition(asked.get("topics"), "topicName"):
        number = one.get("partitionIndex")
        text = setting("offset", one.get("startOffset"))
        yield _offsets("altered", asked, topic, number, refused or codes.get((topic, number)), text)


def _share_offsets_deleted(asked: Told, body: Body) -> Iterator[Happened]:
    codes = {one.get("topicName"): one.get("errorCode") for one in body.get("responses") or ()}
    for one in asked.get("topics") or ():
        topic = one.get("topicName")
        yield _offsets("deleted", asked, topic, None, body.get("errorCode") or codes.get(topic))


def _offsets(
    kind: str, asked: Told, topic: Any, partition: int | None, code: int | None, text: str | None = None
) -> Happened:
    """The offset of a group in a partition."""
    return Happened(kind, topic, partition, asked.get("groupId"), number=code, text=text, thing="offsets")


def _markers_written(asked: Told, body: Body) -> Iterator[Happened]:
    """Transactions that an administrator ends."""
    codes = {
        (marker.get("producerId"), topic, one.get("partitionIndex")): one.get("errorCode")
        for marker in body.get("markers") or ()
        for topic, one in _each_partition(marker.get("topics"))
    }
    for marker in asked.get("markers") or ():
        producer = marker.get("producerId")
        text = "committed" if marker.get("transactionResult") else "aborted"
        for topic, number in _each_partition(marker.get("topics"), partitions="partitionIndexes"):
            code = codes.get((producer, topic, number))
            said = f"producer {producer}"
            yield Happened("altered", topic, number, subject=said, number=code, text=text, thing="transaction")


# --- the cluster ---


def _features_updated(asked: Told, body: Body) -> Iterator[Happened]:
    codes = {one.get("feature"): one.get("errorCode") for one in body.get("results") or ()}
    for one in asked.get("featureUpdates") or ():
        name = one.get("feature")
        code = body.get("errorCode") or codes.get(name, 0)
        text = setting("version", one.get("maxVersionLevel"))
        yield Happened("altered", subject=name, number=code, text=text, thing="feature")


def _member_of_cluster(kind: str, thing: str, field: str) -> Reader:
    """Reads a request that names one broker, controller or voter."""

    def read(asked: Told, body: Body) -> Iterator[Happened]:
        number = asked.get(field)
        yield Happened(kind, subject=None if number is None else str(number), number=body.get("errorCode"), thing=thing)

    return read


class KafkaChange(NamedTuple):
    """What an API does to what, in most cases, and how its exchanges are read."""

    kind: str
    thing: str
    read: Reader


READERS: Mapping[int, KafkaChange] = {
    OFFSET_COMMIT: KafkaChange("altered", "offsets", _offsets_committed),
    19: KafkaChange("created", "topic", _topics_created),
    20: KafkaChange("deleted", "topic", _topics_deleted),
    21: KafkaChange("deleted", "records", _records_deleted),
    WRITE_TXN_MARKERS: KafkaChange("altered", "transaction", _markers_written),
    30: KafkaChange("created", "acl", _acls_created),
    31: KafkaChange("deleted", "acl", _acls_deleted),
    33: KafkaChange("altered", "configuration", _configured),
    34: KafkaChange("altered", "replica", _directories_altered),
    37: KafkaChange("altered", "topic", _partitions_created),
    38: KafkaChange("created", "delegation token", _token_created),
    39: KafkaChange("altered", "delegation token", _token_renewed),
    40: KafkaChange("deleted", "delegation token", _token_expired),
    42: KafkaChange("deleted", "group", _groups_deleted),
    43: KafkaChange("altered", "partition", _elected),
    44: KafkaChange("altered", "configuration", _configured),
    45: KafkaChange("altered", "partition", _reassigned),
    47: KafkaChange("deleted", "offsets", _offsets_deleted),
    49: KafkaChange("altered", "quota", _quotas_altered),
    51: KafkaChange("altered", "user", _credentials_altered),
    57: KafkaChange("altered", "feature", _features_updated),
    64: KafkaChange("deleted", "broker", _member_of_cluster("deleted", "broker", "brokerId")),
    80: KafkaChange("created", "voter", _member_of_cluster("created", "voter", "voterId")),
    81: KafkaChange("deleted", "voter", _member_of_cluster("deleted", "voter", "voterId")),
    91: KafkaChange("altered", "offsets", _share_offsets_altered),
    92: KafkaChange("deleted", "offsets", _share_offsets_deleted),
    94: KafkaChange("deleted", "controller", _member_of_cluster("deleted", "controller", "controllerId")),
}
"""API -> what its exchanges change."""


def changes(api: int, asked: Body | None, body: Body) -> Iterator[Happened]:
    """What an exchange of one of READERS changed, or what was refused. asked: None where its request is not known."""
    told = asked or {}
    if not told.get("validateOnly"):
        yield from READERS[api].read(told, body)


def topic_id(text: str | None) -> bytes | None:
    """A topic's id, of its text as `full.uuid_text` makes it."""
    return None if not text else urlsafe_b64decode(text + "==")
