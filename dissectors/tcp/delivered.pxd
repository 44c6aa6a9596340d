cimport cython
from dissectors.tcp.numbers cimport SEGMENT_FIELDS, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME

@cython.final
cdef class Delivered:
    cdef readonly Py_ssize_t count
    cdef long long _offset
    cdef long long _size
    cdef list _buffers
    cdef object _last
    cdef Py_ssize_t _room
    cdef object _array
    cdef long long[::1] _segments
    cdef long long[::1] _which
    cdef long long[::1] _at
    cdef long long[::1] _sizes

    cdef int add(self, long long start, long long order, long long packet_ref, long long time, object buffer, long long at, long long size) except -1
    cpdef object chunk(self)
