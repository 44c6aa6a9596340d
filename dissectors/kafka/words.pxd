cimport cython
from dissectors.wire.reader cimport COMPACT, PLAIN, WIDE

cdef enum:
    SKIP = 0
    SIZED = 1
    NAME = 2
    ID = 3
    TOPIC = 4
    PARTITION = 5
    PAIR_VALUE = 6
    PAIR = 7
    PARTITIONS = 8
    ERROR = 9
    ERROR_TEXT = 10
    FAULT = 11
    THROTTLE = 12
    VALUE = 13
    TEXT = 14
    GROUP = 15
    RECORDS = 16
    ARRAY = 17
    STRUCT = 18
    OPTIONAL = 19
    TAGS = 20
    POSITION = 21
    POSITION_LIST = 22

    BARE = 0
    NUMBERED = 1
    FORGOTTEN = 2

    VALUE_COUNT = 22
    GROUP_PLACE = 0
    KEY_TYPE_PLACE = 1
    ACKS_PLACE = 2
    TRANSACTION_PLACE = 3
    REPLICA_PLACE = 4
    MAX_WAIT_PLACE = 5
    ISOLATION_PLACE = 6
    SESSION_PLACE = 7
    EPOCH_PLACE = 8
    MIN_BYTES_PLACE = 20
    KEEPS_PREPARED_PLACE = 21
    NO_SLOT = -1
    SLOTS = 8

@cython.final
cdef class MessageWords:
    cdef readonly int[::1] words
    cdef readonly Py_ssize_t last
    cdef readonly Py_ssize_t least
    cdef readonly dict values
    cdef readonly tuple scopes
