cimport cython
from dissectors.rows.exchange cimport PendingRequest
from dissectors.rows.fields cimport ABSENT

@cython.freelist(64)
cdef class PulsarRequest(PendingRequest):
    cdef public object type
    cdef public long long order
    cdef public long long endpoint_id
    cdef public object endpoint
    cdef public object topic
    cdef public long long ledger
    cdef public long long entry
    cdef public str status
    cdef public PendingBatch batch
    cdef public object messages
    cdef public long long kept
    cdef public bint answer_announced

    cpdef int attach(self, endpoint) except -1
    cpdef int is_about(self, topic) except -1

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
