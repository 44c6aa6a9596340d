cimport cython
from dissectors.session.frame cimport FrameFacts
from dissectors.kafka.record_batch cimport RecordBatch
from dissectors.rows.fields cimport ABSENT

cdef enum:
    QUEUED_NS = 10000000
    SEQUENCES = 65536

@cython.final
cdef class Tally:
    cdef public long long count
    cdef public int direction
    cdef public long long time
    cdef public long long packet_ref
    cdef public long long offset
    cdef public long long last_ns
    cdef public object more

    cpdef int add(self, FrameFacts frame) except -1

@cython.final
cdef class ProducerSequence:
    cdef public long long producer_id
    cdef public long long epoch
    cdef public object topic
    cdef public long long partition
    cdef public long long number
    cdef public long long order
    cdef public long long refused

@cython.final
cdef class KafkaDiagnostics:
    cdef public Tally produced
    cdef public Tally plain
    cdef public Tally packed
    cdef public Tally repeated
    cdef public Tally behind
    cdef public Tally overtaken
    cdef public Tally late
    cdef public Tally tails
    cdef public long long tail_bytes
    cdef public dict stuck
    cdef public long long latest_ns
    cdef public long long latest_allowed_ms
    cdef public long long single
    cdef public long long stored_bytes
    cdef public long long uncompressed_bytes
    cdef public object queued_ns
    cdef public long long longest_ns
    cdef public dict queued_apis
    cdef public dict removed
    cdef public dict old_formats
    cdef public dict joins
    cdef public dict commits
    cdef public dict sequences
    cdef public ProducerSequence newest
    cdef public dict epochs

    cdef produced_batch(self, FrameFacts frame, RecordBatch batch, topic, long long partition, bint answered)
    cdef int seen_batch(self, FrameFacts frame, str role, RecordBatch batch) except -1
    cdef int queued(self, FrameFacts request, str api, long long queued_ns) except -1
    cdef ProducerSequence _sequence(self, RecordBatch batch, topic, long long partition)
