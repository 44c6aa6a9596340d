cimport cython
from dissectors.session.frame cimport Frame
from dissectors.pulsar.decode cimport PulsarCommand
from dissectors.pulsar.fields cimport FLOW_MESSAGE_PERMITS
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT

cdef Py_ssize_t _CONSUMERS

cdef enum:
    SUBSCRIBE = 4
    MESSAGE = 9
    FLOW = 11

@cython.final
cdef class Permits:
    cdef public dict left
    cdef public dict since
    cdef public long long gap_order

    cpdef int count(self, Frame frame, PulsarCommand command, PulsarRequest request) except -1
    cdef int _change(self, long long consumer, long long code, PulsarRequest request) except -1
    cdef long long _left(self, long long consumer) except *
    cdef int _forget(self, long long consumer) except -1
