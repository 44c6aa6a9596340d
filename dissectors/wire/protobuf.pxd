cimport cython
from dissectors.wire.reader cimport WireReader

cdef extern from *:
    """
    #define LOW32 0xFFFFFFFFLL
    #define SIGN32 0x80000000LL
    #define LARGEST_TAG 0xFFFFFFFFLL
    """
    const long long LOW32, SIGN32, LARGEST_TAG

cpdef enum:
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    GROUP = 3
    GROUP_END = 4
    FIXED32 = 5

cpdef enum:
    OTHER = 0
    INT64 = 1
    INT32 = 2
    UINT32 = 3
    FLAG = 4
    INTEGERS = 5
    OCTETS = 6
    MESSAGE = 7

cdef enum:
    MOST_FIELDS = 96
    DEEPEST = 100

@cython.final
cdef class MessageShape:
    cdef Py_ssize_t size
    cdef long long[::1] kinds
    cdef public list inner

@cython.final
cdef class MessageFields:
    cdef readonly WireReader reader
    cdef readonly bytes data
    cdef readonly Py_ssize_t begin
    cdef readonly Py_ssize_t end
    cdef MessageShape shape
    cdef long long[:, ::1] _cells

    cpdef bint read(self, MessageShape shape, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef int _field(self, MessageShape shape, bint keep, int depth) except -1
    cdef Py_ssize_t _bytes(self, long long size) except -1
    cdef int _message(self, MessageShape shape, Py_ssize_t start, Py_ssize_t end, int depth) except -1
    cdef Py_ssize_t _group(self, long long number, int depth) except -1
    cpdef bint has(self, Py_ssize_t number) except -1
    cpdef long long number(self, Py_ssize_t number, long long default)
    cpdef Py_ssize_t start(self, Py_ssize_t number) except -1
    cpdef Py_ssize_t stop(self, Py_ssize_t number) except -1
    cpdef bytes octets(self, Py_ssize_t number)
    cpdef str text(self, Py_ssize_t number)
    cpdef list each(self, long long number)
    cpdef list integers(self, long long number)
    cdef long long _next(self, long long number)

cdef MessageShape NO_FIELDS
