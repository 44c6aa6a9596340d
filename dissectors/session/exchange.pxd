cimport cython
from dissectors.session.frame cimport FrameFacts
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable, int64

cdef str _ORPHAN, _UNKNOWN
cdef tuple SIDES
cdef int CLIENT

cdef enum:
    HELD_NS = 4000000
    HELD_NS_PER_BYTE = 10

cdef class PendingRequest:
    cdef public FrameFacts frame
    cdef public str api
    cdef public long long api_code
    cdef public long long version
    cdef public long long correlation_id
    cdef public str client_id
    cdef public str group
    cdef public object topics
    cdef public long long partitions
    cdef public long long records
    cdef public long long payload_bytes
    cdef public long long queued_ns
    cdef public str body

    cdef int begin(self, FrameFacts frame, str api, long long api_code) except -1

cpdef long long elapsed(long long start, long long end)
cpdef long long queued(FrameFacts request, FrameFacts response, long long before_ns)
cpdef long long held(long long wait_ns, long long queued_ns, long long payload_bytes)

@cython.final
cdef class Report:
    cdef readonly object conn
    cdef readonly object sink
    cdef readonly RowTable exchanges
    cdef readonly RowTable batches
    cdef readonly RowTable errors
    cdef readonly RowTable messages
    cdef readonly RowTable positions
    cdef readonly RowTable events
    cdef readonly bint wants_exchanges
    cdef readonly bint wants_errors
    cdef readonly bint wants_batches
    cdef readonly bint wants_messages
    cdef readonly bint wants_findings
    cdef readonly bint wants_positions
    cdef readonly bint wants_events
    cdef object _resends
    cdef object _hold

    cpdef Py_ssize_t open_exchange(self, str kind, PendingRequest request, FrameFacts response, object until) except -1
    cpdef int fail(self, Py_ssize_t slot, errors) except -1
    cpdef int finish_exchange(self, Py_ssize_t slot) except -1
    cdef bint _retransmitted(self, FrameFacts request, FrameFacts response, object until) except -1
    cdef int _write_frames(self, Py_ssize_t slot, FrameFacts request, FrameFacts response) except -1
    cpdef Py_ssize_t open_batch(self, PendingRequest request, FrameFacts frame) except -1
    cpdef int finish_batch(self, Py_ssize_t slot) except -1
    cpdef Py_ssize_t open_message(self, PendingRequest request, FrameFacts frame) except -1
    cpdef int finish_message(self, Py_ssize_t slot) except -1
    cpdef int error(self, error, PendingRequest request, FrameFacts response) except -1
    cpdef Py_ssize_t open_position(self, PendingRequest request, FrameFacts frame) except -1
    cdef int _finish(self, RowTable table, Py_ssize_t slot) except -1

cdef str _initiator(str kind, FrameFacts request, FrameFacts response)
cdef int _write_id(RowTable table, Py_ssize_t slot, Py_ssize_t field, FrameFacts begins) except -1
