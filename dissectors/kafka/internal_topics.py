"""What the brokers' coordinators write into topics of their own: committed offsets, groups, transactions, share state.

    key     i16 kind of record | its key, as NAMEKey of the message tables has it
    value   i16 version | NAMEValue of that version; null where the record deletes

Source: Apache Kafka's message definitions of the kinds coordinator-key and coordinator-value (KIP-915), and the
group-coordinator, transaction-coordinator and share-coordinator modules before them.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from dissectors.kafka import schema
from dissectors.kafka.full import full, versioned

_RECORDS = {
    "__consumer_offsets": (
        "OffsetCommit",
        "GroupMetadata",
        *(
            f"ConsumerGroup{part}"
            for part in (
                "Metadata", "PartitionMetadata", "MemberMetadata", "TargetAssignmentMetadata",
                "TargetAssignmentMember", "CurrentMemberAssignment", "RegularExpression",
            )
        ),
        *(
            f"ShareGroup{part}"
            for part in (
                "Metadata", "PartitionMetadata", "MemberMetadata", "TargetAssignmentMetadata",
                "TargetAssignmentMember", "CurrentMemberAssignment", "StatePartitionMetadata",
            )
        ),
        *(
            f"StreamsGroup{part}"
            for part in (
                "Metadata", "MemberMetadata", "TargetAssignmentMetadata", "TargetAssignmentMember",
                "CurrentMemberAssignment", "Topology",
            )
        ),
    ),
    "__transaction_state": ("TransactionLog",),
    "__share_group_state": ("ShareSnapshot", "ShareUpdate"),
}  # fmt: skip
"""Topic -> the records that lie in it, by their names without Key and Value."""


class CoordinatorRecord(NamedTuple):
    """A record of an internal topic, decoded; a part is None where it is null, or not as its kind says."""

    name: str
    key: dict[str, Any] | None
    value: dict[str, Any] | None
    is_whole: bool  # both parts were read to their ends


def coordinator_record(topic: str, key: bytes | None, value: bytes | None) -> CoordinatorRecord | None:
    """A record of an internal topic; None for another topic, or a kind of record that is not known."""
    if topic not in _RECORDS or key is None or len(key) < 2:
        return None
    kind = int.from_bytes(key[:2], "big", signed=True)
    name = _kinds(topic).get(kind)
    if name is None:
        return None
    known = schema.message(f"{name}Key").versions
    read = full(f"{name}Key", kind if kind in known else known.last, key, 2, len(key))
    read_value = None if value is None else versioned(f"{name}Value", value)
    whole = read.exact and (value is None or read_value is not None)
    return CoordinatorRecord(name, read.body if read.exact else None, read_value, whole)


@cache
def _kinds(topic: str) -> dict[int, str]:
    """Kind of a record, as its key begins -> its name."""
    keys = {name: schema.message(f"{name}Key") for name in _RECORDS[topic]}
    names = {key.versions.last if key.key is None else key.key: name for name, key in keys.items()}
    return {0: "OffsetCommit", **names} if "OffsetCommit" in names.values() else names
