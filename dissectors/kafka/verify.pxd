cimport cython
from dissectors.session.frame cimport Frame
from dissectors.session.framing cimport Framing
from dissectors.kafka.body_notes cimport RecordSet
from dissectors.kafka.names cimport TopicNames
from dissectors.kafka.record_batch cimport RecordBatch, read_batches
from dissectors.session.exchange cimport Report
from dissectors.wire.codecs.sizes cimport decompressed_size
from dissectors.wire.reader cimport WireReader
from dissectors.rows.fields cimport ABSENT

@cython.final
cdef class BatchVerifier:
    cdef public Framing conversation
    cdef public Report report
    cdef public TopicNames names
    cdef public long long limit
    cdef public bint reported_early
    cdef WireReader _reader

    cpdef list[RecordBatch] batches_of(self, Frame frame, RecordSet records, bint lenient, int old)
    cdef _unfold(self, Frame frame, RecordSet records, RecordBatch batch)
    cpdef int look(self, Frame frame, RecordSet records, list[RecordBatch] found) except -1

cdef long long _has_key(bytes data, Py_ssize_t at, Py_ssize_t end)
