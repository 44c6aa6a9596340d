cimport cython
from dissectors.session.frame cimport FrameFacts
from dissectors.kafka.names cimport TopicNames
from dissectors.kafka.pending cimport KafkaRequest
from dissectors.kafka.record_batch cimport RecordBatch, plus
from dissectors.session.exchange cimport Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable

cdef extern from *:
    """
    #define LATEST_MS 9223372036854LL
    """
    const long long LATEST_MS

cdef str PRODUCE
cdef tuple CHECKSUM_KINDS, FORMATS

cdef enum:
    NS = 1000000

@cython.final
cdef class KafkaRows:
    cdef public Report report
    cdef public TopicNames names

    cpdef Py_ssize_t open_exchange(self, str kind, KafkaRequest call, FrameFacts response, tuple topics, list faults, until) except -1
    cpdef int batches(self, str role, KafkaRequest call, FrameFacts frame, topic, long long partition, list[RecordBatch] found, str outcome, long long base) except -1
    cdef int _batch(self, str role, KafkaRequest call, FrameFacts frame, str topic, long long partition, RecordBatch batch, str outcome, long long first, long long last) except -1

cdef long long nanoseconds(long long ms)
