cimport cython
from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.pulsar.decode cimport PulsarCommand
from dissectors.pulsar.fields cimport (
    ACK_ACK_TYPE,
    ACK_MESSAGE_ID,
    ACK_VALIDATION_ERROR,
    CONNECT_ORIGINAL_PRINCIPAL,
    CONNECT_PROXY_TO_BROKER_URL,
    CONNECT_PROXY_VERSION,
    FLOW_MESSAGE_PERMITS,
    ID_ACK_SET,
    LOOKUP_TOPIC_RESPONSE_RESPONSE,
    PUSH_MESSAGE_ID,
    PUSH_REDELIVERY_COUNT,
    REDELIVER_UNACKNOWLEDGED_MESSAGES_MESSAGE_IDS,
)
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.protobuf cimport MessageShape

cdef int CLIENT, SERVER
cdef Py_ssize_t _CONSUMERS, _SAMPLES
cdef dict _INSPECTIONS
cdef MessageShape ID_SHAPE
cdef object takewhile

cdef enum:
    CUMULATIVE = 1

@cython.final
cdef class Consumption:
    cdef public FrameFacts begins
    cdef public object consumer
    cdef public long long delivered
    cdef public long long redelivered
    cdef public long long acknowledged
    cdef public dict unacknowledged
    cdef public list times
    cdef public long long permits
    cdef public long long dry_since
    cdef public long long dry_ns
    cdef public long long counted_from
    cdef public long long beyond
    cdef public FrameFacts beyond_frame
    cdef public bint batched

    cpdef int end_dry(self, long long ns) except -1

@cython.final
cdef class PulsarDiagnostics:
    cdef public object _conversation
    cdef public object _emit
    cdef public long long _limit
    cdef public dict _consumers
    cdef public long long _unacknowledged
    cdef public long long _samples
    cdef public long long _duplicates
    cdef public long long _gap_order
    cdef public long long _gap_ns

    cpdef int inspect(self, Frame frame, PulsarCommand command, PulsarRequest request) except -1
    cdef int _check_count(self, Consumption consumption) except -1
    cdef Consumption _of(self, Frame frame, PulsarRequest request)
    cdef int _acknowledge(self, Consumption consumption, tuple position, long long time) except -1
