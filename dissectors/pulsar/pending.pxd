cimport cython
from dissectors.session.frame cimport Frame
from dissectors.pulsar.names cimport Endpoint, Topic
from dissectors.session.exchange cimport PendingRequest
from dissectors.rows.fields cimport ABSENT

cdef str OK

@cython.freelist(64)
cdef class PulsarRequest(PendingRequest):
    cdef public object type
    cdef public long long order
    cdef public long long endpoint_id
    cdef public Endpoint endpoint
    cdef public Topic topic
    cdef public long long ledger
    cdef public long long entry
    cdef public str status
    cdef public PendingBatch batch
    cdef public object messages
    cdef public long long kept
    cdef public bint answer_announced
    cdef public tuple receipt_key
    cdef public long long last_sequence
    cdef public long long permits
    cdef public long long permits_left
    cdef public object told

    cdef int begin_command(self, Frame frame, str name, long long code, object type, long long correlation_id) except -1
    cpdef int attach(self, Endpoint endpoint) except -1
    cpdef int is_about(self, Topic topic) except -1

cpdef PulsarRequest new_request(Frame frame, str name, long long code, object type, long long correlation_id)

@cython.final
@cython.freelist(64)
cdef class PendingBatch:
    cdef public str role
    cdef public long long ledger
    cdef public long long entry
    cdef public str codec
    cdef public long long stored_bytes
    cdef public long long uncompressed_bytes
    cdef public str producer
    cdef public long long sequence
    cdef public bint transactional
    cdef public bint control
    cdef public long long published_ns
    cdef public str kind
    cdef public long long stored
    cdef public long long computed
    cdef public str verdict
    cdef public long long time
    cdef public long long packet_ref
    cdef public long long offset
    cdef public str topic
    cdef public long long partition
    cdef public long long broker_ns
    cdef public long long broker_index
