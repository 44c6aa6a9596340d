"""A message of one version as int32 words, which plan.py makes and walk.py reads.

    word        operands                                what the walk does
    SKIP        bytes                                   move over
    SIZED       kind, printable                         … over a length and as many bytes
    NAME        kind                                    a topic's name
    ID                                                  a topic's id, 16 bytes
    TOPIC       listed                                  note: the topic whose name or id, or both, were read
    PARTITION                                           a partition's number, int32
    PAIR_VALUE                                          a number that goes with topic and partition, int64
    PAIR        pair kind                               note: topic, partition, and the number where there is one
    PARTITIONS  kind, counted, pair kind                an array of int32, each a pair
    ERROR       slot                                    an error code, int16
    ERROR_TEXT  kind, slot, text slot                   the text that explains the error in a slot
    FAULT       slot, text slot or NO_SLOT, scope       note: the error in a slot, unless it is 0
    THROTTLE                                            note: milliseconds, int32
    VALUE       place, bytes                            note: a number
    TEXT        place, kind                             note: a text
    GROUP       kind                                    note: a group's name
    RECORDS     kind                                    note: a record set
    POSITION    what, bytes                             note: a number that says where the partition stands
    POSITION_LIST what, kind, bytes                     note: where an array of such numbers, or a text, lies
    ARRAY       kind, counted, size, n                  an array; size: of each element, or 0: the n words that follow
                                                        walk one
    STRUCT      n                                       the n words that follow, with a topic of their own
    OPTIONAL    n                                       … where the byte before is not negative
    TAGS        m, and m words: tag, noted, n, n words… tagged fields

    kind: PLAIN, WIDE or COMPACT, as wire/reader.py has it
    pair kind: BARE, NUMBERED, or FORGOTTEN of what leaves a fetch session
    place: index into VALUES
    scope: index into the `scopes` of the message
    what: as position_fields.py has it

Words are made when a message of a version is met first.
"""

from __future__ import annotations

from array import array
from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.wire.arrays import Ints

(SKIP, SIZED, NAME, ID, TOPIC, PARTITION, PAIR_VALUE, PAIR, PARTITIONS, ERROR, ERROR_TEXT, FAULT, THROTTLE, VALUE,
 TEXT, GROUP, RECORDS, ARRAY, STRUCT, OPTIONAL, TAGS, POSITION, POSITION_LIST) = range(23)  # fmt: skip
BARE, NUMBERED, FORGOTTEN = range(3)
VALUE_COUNT, NO_SLOT, SLOTS = 22, -1, 8
GROUP_PLACE, KEY_TYPE_PLACE, ACKS_PLACE, TRANSACTION_PLACE = 0, 1, 2, 3
REPLICA_PLACE, MAX_WAIT_PLACE, ISOLATION_PLACE, SESSION_PLACE, EPOCH_PLACE = 4, 5, 6, 7, 8
MIN_BYTES_PLACE, KEEPS_PREPARED_PLACE = 20, 21

GROUP_NAME = "groupId"
"""The group that a request names, where it names one: wanted of every request."""

KEY_TYPE = "keyType"
"""What FindCoordinator looks for: 0, or no such field, is a group."""

VALUES = (
    GROUP_NAME, KEY_TYPE, "acks", "transactionalId", "replicaId", "maxWaitMs", "isolationLevel", "sessionId",
    "sessionEpoch", "shareSessionEpoch", "memberId", "generationId", "generationIdOrMemberEpoch", "producerId",
    "producerEpoch", "clientSoftwareName", "clientSoftwareVersion", "mechanism", "committed", "memberEpoch",
    "minBytes", "keepPreparedTxn",
)  # fmt: skip
"""The single values that are noted, by place."""
assert len(VALUES) == VALUE_COUNT


@final
@compiled
class MessageWords:
    """The words of one message in one version, and what the numbers in them stand for."""

    words: Ints
    last: cython.Py_ssize_t  # nothing is noted by the words from here on
    least: cython.Py_ssize_t  # bytes of the shortest body
    values: dict[int, bool]  # the values that this version has: place -> whether it is a text
    places: Ints  # of these
    scopes: tuple[str, ...]  # what its errors are about

    def __init__(
        self, words: array[int], last: int, least: int, values: dict[int, bool], scopes: tuple[str, ...]
    ) -> None:
        self.words = words
        self.last = last
        self.least = least
        self.values = values
        self.places = array("i", values)
        self.scopes = scopes


NO_MESSAGE = MessageWords(array("i"), 0, 0, {}, ())
"""A message without a field: stands where none was read yet."""
