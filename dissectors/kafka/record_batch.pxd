cimport cython
from dissectors.wire.memory cimport crc32c
from dissectors.wire.reader cimport WireReader

cdef enum:
    HEADER_BYTES = 61
    COVERED_FROM = 21
    KEEPS_LENGTH = 12
    SMALLEST_LENGTH = 49
    CODEC_BITS = 7
    LOG_APPEND_BIT = 8
    TRANSACTIONAL_BIT = 16
    CONTROL_BIT = 32
    HORIZON_BIT = 64

@cython.final
cdef class BatchHeader:
    cdef readonly Py_ssize_t start
    cdef readonly long long base_offset
    cdef readonly long long length
    cdef readonly int magic
    cdef readonly long long crc
    cdef readonly int attributes
    cdef readonly long long last_offset_delta
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef readonly long long producer_id
    cdef readonly int producer_epoch
    cdef readonly long long base_sequence
    cdef readonly long long count

    cpdef int begin(self, WireReader r) except -1
    cpdef int complete(self, WireReader r) except -1
    cpdef object batch(self, Py_ssize_t known)
    cpdef long long count_records(self, WireReader r, Py_ssize_t end)

cpdef long long checksum(bytes data, Py_ssize_t start, Py_ssize_t end)
