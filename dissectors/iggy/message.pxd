cimport cython
from dissectors.rows.fields cimport ABSENT

cdef extern from *:
    """
    #define MASK64 0xFFFFFFFFFFFFFFFFULL
    """
    const unsigned long long MASK64

cdef enum:
    START = 0
    COVERED = 1
    END = 2
    ID_AT = 3
    OFFSET = 4
    TIMESTAMP = 5
    ORIGIN = 6
    PAYLOAD = 7
    PAYLOAD_LENGTH = 8
    HEADERS = 9
    HEADERS_LENGTH = 10
    STORED = 11
    STATE = 12
    CELLS = 13

@cython.final
@cython.freelist(16)
cdef class IggyUnit:
    cdef public Py_ssize_t start
    cdef public Py_ssize_t end
    cdef public long long total
    cdef public Py_ssize_t first
    cdef public Py_ssize_t last
    cdef public object batch

@cython.final
cdef class MessageRun:
    cdef long long[:, ::1] cells
    cdef readonly str format
    cdef readonly str checksum_kind
    cdef readonly bint typed
    cdef public long long total
    cdef readonly Py_ssize_t count
    cdef public list units
    cdef public object problem

    cpdef int begin(self, str format, str checksum_kind, bint typed) except -1
    cdef Py_ssize_t add(self) except -1
    cpdef int cut(self, Py_ssize_t count) except -1
    cpdef int put(self, message) except -1
    cdef object message(self, Py_ssize_t i)
    @cython.locals(old="long long[:, ::1]")
    cdef int _grow(self) except -1
