"""Which fields of Kafka's messages say where a partition stands, by the schema's names: plan.py makes steps of them.

A field means the same in every version that has it. From FIRST_ATTRIBUTE on, fields say more of another one: EPOCH,
REPLICAS and ISR of the one before them, GROUP_NAME of those behind it.
"""

from __future__ import annotations

HIGH_WATERMARK, LAST_STABLE, LOG_START, COMMITTED, LEADER, ACQUIRED, FOUND, OLD_OFFSETS, TIMESTAMP = range(9)
EPOCH, REPLICAS, ISR, GROUP_NAME = range(9, 13)
FIRST_ATTRIBUTE = 9

_LEADER = {"leaderId": LEADER, "leaderEpoch": EPOCH, "replicaNodes": REPLICAS, "isrNodes": ISR}
_COMMIT = {"committedOffset": COMMITTED, "committedLeaderEpoch": EPOCH}

FIELDS: dict[str, dict[str, int]] = {
    "FetchResponse": {
        "highWatermark": HIGH_WATERMARK,
        "lastStableOffset": LAST_STABLE,
        "logStartOffset": LOG_START,
        **_LEADER,
    },
    "ProduceResponse": {"logStartOffset": LOG_START, **_LEADER},
    "ListOffsetsRequest": {"timestamp": TIMESTAMP},
    "ListOffsetsResponse": {"oldStyleOffsets": OLD_OFFSETS, "offset": FOUND, "leaderEpoch": EPOCH},
    "OffsetFetchResponse": {"groupId": GROUP_NAME, **_COMMIT},
    "OffsetCommitRequest": _COMMIT,
    "TxnOffsetCommitRequest": _COMMIT,
    "MetadataResponse": _LEADER,
    "DescribeTopicPartitionsResponse": _LEADER,
    "ShareFetchResponse": {"firstOffset": ACQUIRED},
}
"""Message -> field -> what it says."""

ALWAYS = {"FetchResponse": ("highWatermark", "lastStableOffset")}
"""Message -> fields that are noted also where nobody wants positions: they say whether a fetch had to wait for data."""

VALUES: dict[str, tuple[str, ...]] = {
    "ListOffsetsRequest": ("replicaId", "isolationLevel"),
    "TxnOffsetCommitRequest": ("transactionalId",),
    "InitProducerIdRequest": ("transactionalId", "keepPreparedTxn"),
}
"""Message -> single values by which these are understood, beyond plan.VALUES."""
