cimport cython
from dissectors.session.frame cimport Frame
from dissectors.pulsar.batches cimport PulsarEntry, entry_of, is_chunk, position, records
from dissectors.pulsar.decode cimport PulsarCommand
from dissectors.pulsar.fields cimport (
    BROKER_BROKER_TIMESTAMP,
    BROKER_INDEX,
    META_COMPACTED_BATCH_INDEXES,
    META_ENCRYPTION_KEYS,
    META_MARKER_TYPE,
    META_PRODUCER_NAME,
    META_PUBLISH_TIME,
    META_REPLICATED_FROM,
    META_SEQUENCE_ID,
    META_TXNID_LEAST_BITS,
    META_TXNID_MOST_BITS,
    META_UNCOMPRESSED_SIZE,
    PUSH_ACK_SET,
    PUSH_MESSAGE_ID,
    SEND_HIGHEST_SEQUENCE_ID,
)
from dissectors.pulsar.names cimport Topic
from dissectors.pulsar.pending cimport PendingBatch, PulsarRequest
from dissectors.pulsar.state cimport PulsarState
from dissectors.session.exchange cimport Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable
from dissectors.wire.memory cimport crc32c

cdef str CONSUME, FAILED, OK, PRODUCE, REPLICATE, UNKNOWN, _CRC32C, _NO_CHECKSUM
cdef object batches

cdef extern from *:
    """
    #define LATEST_MS 9223372036854LL
    """
    const long long LATEST_MS

cdef enum:
    MS = 1000000
    SEND = 6

@cython.final
cdef class Entries:
    cdef public object _conversation
    cdef public PulsarState _state
    cdef public Report _report
    cdef public object messages
    cdef public set encrypted
    cdef public long long _held
    cdef public bint _overflowed
    cdef public long long _command_limit

    cpdef PulsarEntry read(self, Frame frame, PulsarCommand command, PulsarRequest request)
    cdef int _look_into(self, Frame frame, PulsarCommand command, PulsarRequest request, PulsarEntry entry, bint compacted) except -1
    cpdef int settle(self, PulsarRequest request, PulsarRequest answer, error) except -1
    cdef int _verify(self, Frame frame, PulsarEntry entry) except -1
    cdef int _unfold(self, Frame frame, PulsarEntry entry) except -1
    @cython.locals(codec="long long", topic=Topic)
    cdef PendingBatch _batch(self, PulsarEntry entry)
    cdef int _write(self, PulsarRequest request, PendingBatch batch, str outcome) except -1

cdef long long _ns(long long ms)
