cimport cython
from dissectors.session.frame cimport FrameFacts
from dissectors.kafka.decode cimport ApiVersion
from dissectors.kafka.sessions cimport FetchSession
from dissectors.session.exchange cimport PendingRequest
from dissectors.rows.fields cimport ABSENT

@cython.final
@cython.freelist(64)
cdef class KafkaRequest(PendingRequest):
    cdef public ApiVersion api_version
    cdef public long long number
    cdef public tuple topic_keys
    cdef public list sets
    cdef public object found
    cdef public long long kept
    cdef public long long acks
    cdef public long long replica
    cdef public long long max_wait_ms
    cdef public long long min_bytes
    cdef public long long isolation
    cdef public long long session_number
    cdef public long long session_epoch
    cdef public FetchSession session
    cdef public object values
    cdef public object inner
    cdef public object told
    cdef public object stated

cpdef KafkaRequest new_request(FrameFacts frame, ApiVersion api, long long correlation_id, str client_id)
