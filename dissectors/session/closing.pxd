cimport cython
from dissectors.session.frame cimport FrameFacts
from dissectors.tcp.numbers cimport UNKNOWN_ORDER

cdef str _WHOLE, _CUT, _LATE

@cython.final
cdef class SideClosing:
    cdef public long long fin_order
    cdef public long long fin_ns
    cdef public long long rst_order
    cdef public long long acked
    cdef public long long sent
    cdef public bint is_whole
    cdef public long long cut

@cython.final
cdef class Closing:
    cdef public bint has_begun
    cdef public bint is_over
    cdef public long long last_ns
    cdef public bint is_plain
    cdef public SideClosing client
    cdef public SideClosing server
    cdef public list held

    cdef SideClosing side(self, int direction)
    cpdef str judge(self, FrameFacts answer)
    cdef bint _is_acknowledged(self, SideClosing sender, FrameFacts answer)
    cpdef bint waits(self, FrameFacts answer)
    cpdef str unanswered(self, FrameFacts request)
