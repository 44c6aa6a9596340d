"""What to do about errors for which it is not the same as for all."""

from __future__ import annotations

from collections.abc import Mapping

_ADVICE: Mapping[str | tuple[str, ...], str] = {
    "COORDINATOR_LOAD_IN_PROGRESS":
        "See how much the coordinator has to read of __consumer_offsets or __transaction_state, and its disk.",
    "COORDINATOR_NOT_AVAILABLE":
        "See whether __consumer_offsets or __transaction_state has leaders, and which of its brokers were down.",
    "DUPLICATE_BROKER_REGISTRATION":
        "Give each broker a node.id of its own; one that died is forgotten after broker.session.timeout.ms.",
    "GROUP_MAX_SIZE_REACHED":
        "Run fewer members, or raise group.max.size: those that are turned away read nothing.",
    "INCONSISTENT_CLUSTER_ID":
        "Compare cluster.id in meta.properties of this node with that of the others, and which controllers it asks.",
    "INCONSISTENT_GROUP_PROTOCOL":
        "Give all members a partition.assignment.strategy in common; to change it, deploy twice, first with both.",
    "INVALID_REPLICATION_FACTOR":
        "Ask for as many replicas as there are brokers at most, and see whether all brokers are up.",
    ("INVALID_TIMESTAMP", "INVALID_RECORD"):
        "See what the messages lack: a key, in a compacted topic, a time that the topic allows, or an intact batch.",
    "KAFKA_STORAGE_ERROR":
        "Look at the disks of that broker: where one fails or is full, it takes the log directory out of use.",
    ("MESSAGE_TOO_LARGE", "RECORD_LIST_TOO_LARGE", "TooBigMessagePayload"):
        "Compare what the client sends at most with what the topic takes (Kafka: max.message.bytes, segment.bytes).",
    "NOT_CONTROLLER":
        "Let the client ask for metadata and go to the controller: trying again at this broker is in vain.",
    "NOT_ENOUGH_REPLICAS": "See why brokers are out of sync with the leader: their processes, disks and network.",
    "OUT_OF_ORDER_SEQUENCE_NUMBER":
        "See which batch before these was lost or given up; producers before Kafka 2.5 must be closed and begin anew.",
    "REQUEST_TIMED_OUT":
        "See which replicas in sync were slow to follow a Produce with acks=all; else look at the controller.",
    "UNKNOWN_SERVER_ERROR": "Look for an exception in the broker's log at that time.",
    ("UNKNOWN_TOPIC_OR_PARTITION", "TopicNotFound", "TopicNameNotFound", "StreamNameNotFound"):
        "Create it, or correct the name that the client is configured with.",
    ("TopicIdNotFound", "StreamIdNotFound", "PartitionNotFound", "ConsumerGroupIdNotFound", "SubscriptionNotFound",
     "ResourceNotFound"):
        "See whether it was deleted, or never made: a client goes on with what it was told when it began.",
    "UNRELEASED_INSTANCE_ID":
        "Give each member a group.instance.id of its own; one that died is released when its session ends.",
    "UNKNOWN_SUBSCRIPTION_ID": "Nothing: the client asks anew which metrics are wanted, as somebody changed that.",
    "UNSUPPORTED_ASSIGNOR": "Set group.remote.assignor to one that the brokers have: uniform or range.",
    "UNSUPPORTED_COMPRESSION_TYPE": "zstd needs Kafka 2.1 at both ends: update the older, or choose another codec.",
    "ConsumerBusy":
        "Close the consumer that holds the subscription, or let all of them use the same type: Failover or Shared.",
    "IncompatibleSchema": "Compare the schema with that of the topic.",
    "MetadataError": "Look at the metadata store (ZooKeeper, etcd, RocksDB) and the broker's session there.",
    "PersistenceError": "Look at the bookies: how many are up and writable, and their disks.",
    "ProducerBlockedQuota": "A backlog is over the topic's quota: see which consumers acknowledge nothing.",
    "ProducerBusy":
        "Give each producer a name of its own, or none; one that was cut off is known until its connection is closed.",
    "ServiceNotReady": "Nothing, if a broker was just started or a bundle unloaded; else look at that broker's log.",
    "SHARE_SESSION_LIMIT_REACHED": "Run fewer members, or raise group.share.max.share.sessions.",
    "TELEMETRY_TOO_LARGE":
        "Nothing but metrics is lost: let the client push fewer, raise telemetry.max.bytes, or turn them off.",
    "TooManyRequests": "Let fewer clients start at once, or raise maxConcurrentLookupRequest of the brokers.",
    "TopicTerminated": "Send to another topic, or delete this one and make it anew.",
    "TransactionCoordinatorNotFound":
        "See whether brokers have transactionCoordinatorEnabled=true, and whether the one that coordinates is up.",
    "ConsumerGroupMemberNotFound": "Let the client join its group after each login: a new connection is in no group.",
    ("MissingIndex", "InvalidIndexes", "InvalidMessagesSize", "TooSmallMessage", "InvalidReservedField"):
        "Compare the releases of client and server: messages have another layout since 0.5, 0.7 and 0.9.",
    "StaleClient": "Let the client send PING also while its application works, within the heartbeat of the server.",
    "TopicFull": "Raise max_topic_size of the topic, or let its messages expire sooner.",
    "Transient": "The node had no majority of its cluster, or does not lead: see which nodes were down at that time.",
}  # fmt: skip
"""How names of errors begin -> what to do."""


AT_LIMIT = "reached max"  # what brokers of Pulsar say of one too many: the error has no other name than busy


def advice_on(error: str, message: str | None = None) -> str | None:
    """What to do about an error, where that is known. message: what the broker said."""
    if error.endswith("Busy") and AT_LIMIT in (message or ""):
        return "Close those that nobody needs, or raise the limit of the topic or its namespace."
    return next((text for begin, text in _ADVICE.items() if error.startswith(begin)), None)
