cimport cython
from dissectors.session.frame cimport Frame
from dissectors.pulsar.fields cimport (
    KEY_KEY,
    META_CHUNK_ID,
    META_COMPACTED_BATCH_INDEXES,
    META_COMPRESSION,
    META_MARKER_TYPE,
    META_NUM_CHUNKS_FROM_MSG,
    META_NUM_MESSAGES_IN_BATCH,
    META_UNCOMPRESSED_SIZE,
    SINGLE_PAYLOAD_SIZE,
)
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.protobuf cimport MessageFields
from dissectors.wire.reader cimport WireReader

cdef object _here, decompress

cdef enum:
    BROKER_ENTRY_MAGIC = 0x0E02
    CHECKSUM_MAGIC = 0x0E01

@cython.final
cdef class PulsarEntry:
    cdef readonly WireReader reader
    cdef readonly MessageFields meta
    cdef readonly MessageFields broker
    cdef readonly Frame frame
    cdef readonly Py_ssize_t at
    cdef readonly Py_ssize_t covered
    cdef readonly Py_ssize_t payload
    cdef readonly Py_ssize_t stop
    cdef readonly long long stored
    cdef readonly bint marked
    cdef readonly bint has_meta
    cdef readonly bint has_broker
    cdef readonly str defect
    cdef public PulsarRequest request
    cdef public str role
    cdef public long long time
    cdef public long long packet_ref
    cdef public long long ledger
    cdef public long long entry
    cdef public object to_deliver
    cdef public long long computed
    cdef public str verdict
    cdef public object plain

    cpdef int read(self, Frame frame, Py_ssize_t after, long long limit) except -1
    cdef bint _read_broker(self, Frame frame) except -1
    cdef bint _read_checksum(self, Frame frame) except -1
    cdef int _read_meta(self, Frame frame, long long limit) except -1
    cdef long long _magic(self, Frame frame, Py_ssize_t at)
    cdef bint _ends_early(self, Frame frame) except -1
    cpdef long long codec(self)

cpdef long long records(MessageFields meta)
cpdef str position(long long ledger, long long entry)
cpdef bint is_chunk(MessageFields meta) except -1
cpdef PulsarEntry entry_of(Frame frame, Py_ssize_t after, long long limit)
