cimport cython
from dissectors.kafka.record_batch cimport checksum, header_places
from dissectors.session.search cimport SearchBudget
from dissectors.wire.reader cimport WireReader, reader

@cython.final
cdef class BatchSearch:
    cdef public SearchBudget budget
    cdef public long long _largest
    cdef public list _parts
    cdef public list _pieces
    cdef public Py_ssize_t _size
    cdef public long long _end
    cdef public long long _wanted

    cpdef list whole(self, bytes data, captured, Py_ssize_t start, Py_ssize_t end, Py_ssize_t most=?)
    cdef _judge(self, bytes data, Py_ssize_t at, Py_ssize_t stop, Py_ssize_t end)

cdef Py_ssize_t _end(bytes data, Py_ssize_t at) except -1
