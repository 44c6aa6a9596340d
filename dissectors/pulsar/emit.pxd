cimport cython
from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.pulsar.state cimport PulsarState
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.session.exchange cimport Report, queued
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT

cdef str CALL, ONE_WAY, ORPHAN, PUSH, UNANSWERED, UNKNOWN
cdef int CLIENT

@cython.final
cdef class PulsarEmitter:
    cdef readonly Report report
    cdef readonly PulsarState state

    cpdef int call(self, PulsarRequest request, Frame frame, PulsarRequest answer, error) except -1
    cpdef int unanswered(self, PulsarRequest request, until) except -1
    cpdef int orphan(self, PulsarRequest answer, error) except -1
    cpdef int one_way(self, int direction, PulsarRequest command, error) except -1
    cpdef int error(self, error, PulsarRequest request) except -1
    cdef int _response(self, str kind, PulsarRequest answer, error) except -1
    cdef int _write(self, str kind, PulsarRequest request, FrameFacts response, str status, error, str body, until) except -1
