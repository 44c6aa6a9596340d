cimport cython
from dissectors.wire.memory cimport copy

cdef extern from *:
    """
    #define FNV_START 0xCBF29CE484222325ULL
    #define FNV_PRIME 0x100000001B3ULL
    #define LOW 0x7FFFFFFFFFFFFFFFULL
    """
    const unsigned long long FNV_START, FNV_PRIME, LOW

@cython.final
cdef class Texts:
    cdef public Py_ssize_t count
    cdef public object arena
    cdef unsigned char[::1] _arena
    cdef public object starts
    cdef long long[::1] _starts
    cdef long long[::1] _hashes
    cdef long long[::1] _places
    cdef dict _known

    cpdef Py_ssize_t number(self, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size) except -1
    cpdef Py_ssize_t of(self, str text) except -1
    cdef bint _is(self, Py_ssize_t i, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size)
    cdef Py_ssize_t _add(self, long long key, const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t size) except -1
    cdef int _place(self, Py_ssize_t i) except -1

@cython.final
cdef class Numbered:
    cdef public list values
    cdef dict _known

    cpdef Py_ssize_t of(self, object value) except -1
