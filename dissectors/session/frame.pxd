cimport cython
from dissectors.rows.fields cimport ABSENT

@cython.freelist(256)
cdef class FrameFacts:
    cdef readonly int direction
    cdef readonly long long offset
    cdef readonly long long size
    cdef readonly long long order
    cdef readonly long long first_ns
    cdef readonly long long last_ns
    cdef readonly long long packet_ref
    cdef readonly bint complete

@cython.final
@cython.freelist(64)
cdef class Frame(FrameFacts):
    cdef readonly bytes data
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t end
    cdef readonly Py_ssize_t known
