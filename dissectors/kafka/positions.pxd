from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.kafka.body_notes cimport AT_PARTITION, AT_TOPIC, PAIR_TOPIC, STATED, WHAT, BodyNotes, NoteRows
from dissectors.kafka.decode cimport (
    END_TXN,
    FETCH,
    INIT_PRODUCER_ID,
    LIST_OFFSETS,
    OFFSET_COMMIT,
    TXN_OFFSET_COMMIT,
    ApiVersion,
)
from dissectors.kafka.pending cimport KafkaRequest
from dissectors.kafka.position_fields cimport (
    EPOCH,
    FIRST_ATTRIBUTE,
    FOUND,
    GROUP_NAME,
    HIGH_WATERMARK,
    ISR,
    LAST_STABLE,
    LEADER,
    LOG_START,
    OLD_OFFSETS,
)
from dissectors.kafka.rows cimport KafkaRows
from dissectors.kafka.words cimport ISOLATION_PLACE, KEEPS_PREPARED_PLACE, REPLICA_PLACE, TRANSACTION_PLACE
from dissectors.session.exchange cimport Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable

cdef enum:
    NO_TOPIC = -2

cpdef int asked(conversation, KafkaRequest call, ApiVersion api, BodyNotes notes) except -1
cpdef int answered(conversation, Frame frame, KafkaRequest call, ApiVersion api, BodyNotes notes, faults) except -1
cdef int _fetched(KafkaRows rows, KafkaRequest call, FrameFacts facts, BodyNotes notes) except -1
cdef int _write(KafkaRows rows, FrameFacts facts, KafkaRequest call, BodyNotes notes, Py_ssize_t count) except -1
cdef str _sought(BodyNotes notes, Py_ssize_t i, stated, times)
cdef list _said(BodyNotes notes)
cdef int _committed(KafkaRows rows, KafkaRequest call, FrameFacts facts, str what, faults) except -1
cdef int _transaction_ended(KafkaRows rows, FrameFacts facts, KafkaRequest call) except -1
