cimport cython
from dissectors.pulsar.decode cimport PulsarCommand, CommandLayout
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT

cdef object deque

cpdef tuple key_of(PulsarCommand command, CommandLayout layout)

@cython.final
cdef class PulsarPendingRequests:
    cdef public Py_ssize_t _limit
    cdef public tuple _open
    cdef public tuple _spaces
    cdef public Py_ssize_t _count
    cdef public tuple _holes

    cpdef PulsarRequest add(self, int direction, tuple key, PulsarRequest request)
    cpdef PulsarRequest find(self, int direction, tuple key)
    cpdef PulsarRequest take(self, int direction, tuple key)
    cdef PulsarRequest _pop(self, int requester, tuple key)
    cdef int _count_open(self, int requester, tuple key, int change) except -1
