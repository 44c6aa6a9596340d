cimport cython
from dissectors.tcp.delivered cimport Delivered
from dissectors.tcp.flow cimport Flow
from dissectors.tcp.half cimport Half
from dissectors.tcp.numbers cimport *
from dissectors.tcp.packets cimport Packets
from dissectors.tcp.stalls cimport Stalls

@cython.final
cdef class Reassembler:
    cdef readonly object limits
    cdef readonly object history
    cdef long long _linger_ns
    cdef tuple _sides
    cdef long long _time
    cdef long long _packet_ref
    cdef long long _arrival

    cpdef Py_ssize_t take(self, Flow flow, Packets packets, Py_ssize_t i, Py_ssize_t end) except -1
    cdef int _packet(self, Flow flow, Half half, Packets packets, Py_ssize_t j) except -1
    cdef bint _is_copy(self, Half half, Packets packets, Py_ssize_t j) except -1
    cdef bint _is_stray(self, Flow flow, Half half, long long seq, long long flags) except -1
    cdef bint _accept(self, Flow flow, Half half, Half other, Packets packets, Py_ssize_t j) except -1
    cdef long long _acknowledge(self, Half other, long long ack)
    cdef int _data(self, Flow flow, Half half, Half other, Packets packets, Py_ssize_t j, long long offset, long long ack) except -1
    cdef int _release(self, Flow flow, bint force) except -1
    cdef bint _advance(self, Flow flow, Half half, Half other) except -1
    cdef long long _order(self, Flow flow)
    cdef int _deliver(self, Flow flow, Half half, object buffer, long long at, long long size, long long packet_ref, long long time) except -1
    cdef int _flush(self, Half half) except -1
