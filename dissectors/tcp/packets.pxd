cimport cython

@cython.final
cdef class Packets:
    cdef readonly object buffer
    cdef const long long[::1] index
    cdef const long long[::1] direction
    cdef const long long[::1] seq
    cdef const long long[::1] ack
    cdef const long long[::1] flags
    cdef const long long[::1] window
    cdef const long long[::1] at
    cdef const long long[::1] size
    cdef const long long[::1] have
    cdef const long long[::1] via
    cdef const long long[::1] time
    cdef const long long[::1] packet_ref
    cdef const long long[::1] arrival
    cdef const long long[::1] signature
