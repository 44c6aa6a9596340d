cimport cython
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.memory cimport crc32c
from dissectors.wire.reader cimport WireReader, reader

cdef extern from *:
    """
    #define LARGEST 0x7fffffffffffffffLL
    """
    const long long LARGEST

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
    LAST_CODEC = 4
    MOST_ATTRIBUTES = 127

cdef tuple _CODECS

cpdef enum:
    NO_TIMESTAMP = -1

@cython.final
@cython.freelist(256)
cdef class RecordBatch:
    cdef public Py_ssize_t start
    cdef public long long size
    cdef public int magic
    cdef public long long base_offset
    cdef public long long last_offset
    cdef public long long announced
    cdef public long long count
    cdef public str codec
    cdef public bint log_append
    cdef public bint transactional
    cdef public bint control
    cdef public long long base_timestamp
    cdef public long long first_timestamp
    cdef public long long max_timestamp
    cdef public long long producer_id
    cdef public int producer_epoch
    cdef public long long base_sequence
    cdef public long long crc
    cdef public Py_ssize_t body
    cdef public bint whole
    cdef public long long odd_bytes
    cdef public long long uncompressed
    cdef public long long keyed
    cdef public long long computed
    cdef public str verdict
    cdef public long long time
    cdef public long long packet_ref
    cdef public long long stream_offset
    cdef public object entries

    cdef int _read(self, WireReader r, Py_ssize_t known) except -1
    cpdef bint verify(self, bytes data) except -1

cpdef list read_batches(WireReader r, Py_ssize_t end, Py_ssize_t known)
@cython.locals(octets="const unsigned char[::1]")
cpdef list header_places(bytes data, Py_ssize_t start, Py_ssize_t end)
cpdef long long checksum(bytes data, Py_ssize_t start, Py_ssize_t end)
cdef long long plus(long long number, long long more)
