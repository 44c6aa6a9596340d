from dissectors.session.frame cimport Frame
from dissectors.kafka.body_notes cimport BodyNotes, RecordSet
from dissectors.kafka.pending cimport KafkaRequest
from dissectors.kafka.record_batch cimport RecordBatch
from dissectors.kafka.rows cimport KafkaRows
from dissectors.kafka.verify cimport BatchVerifier
from dissectors.rows.fields cimport ABSENT

cdef str FAILED, OK, PRODUCE, UNKNOWN
cdef int NO_MAGIC

cdef int sent(KafkaRows rows, BatchVerifier verifier, Frame frame, KafkaRequest call, BodyNotes notes) except -1
cdef settle(KafkaRows rows, KafkaRequest call, BodyNotes notes, bint answered)
cdef bint _begins_later(RecordSet records) except -1
