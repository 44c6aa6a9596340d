cimport cython
from dissectors.tcp.numbers cimport COLUMNS

@cython.final
cdef class Delivered:
    cdef readonly Py_ssize_t count
    cdef long long _offset
    cdef long long _size
    cdef list _buffers
    cdef object _last
    cdef Py_ssize_t _room
    cdef object _numbers
    cdef long long[::1] _columns

    cdef int add(self, long long start, long long order, long long packet_ref, long long time, object buffer, long long at, long long size) except -1
    @cython.locals(which="long long[::1]", at="long long[::1]", sizes="long long[::1]")
    cpdef object chunk(self)
