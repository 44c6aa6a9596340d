from dissectors.session.frame cimport Frame
from dissectors.kafka.body_notes cimport BodyNotes, RecordSet
from dissectors.kafka.decode cimport FETCH, FETCH_SNAPSHOT, SHARE_FETCH, ApiVersion
from dissectors.kafka.delivery cimport READ_COMMITTED, delivered
from dissectors.kafka.pending cimport KafkaRequest
from dissectors.kafka.record_batch cimport RecordBatch
from dissectors.kafka.rows cimport KafkaRows
from dissectors.kafka.verify cimport BatchVerifier
from dissectors.kafka.words cimport EPOCH_PLACE, ISOLATION_PLACE, MAX_WAIT_PLACE, MIN_BYTES_PLACE, REPLICA_PLACE, SESSION_PLACE
from dissectors.session.exchange cimport elapsed, held
from dissectors.rows.fields cimport ABSENT

cdef str OK, REPLICATE
cdef int NO_MAGIC
cdef tuple _METADATA_LOG

cdef extern from *:
    """
    #define TICK_NS 200000000LL
    #define MS_NS 1000000LL
    """
    const long long TICK_NS, MS_NS

cdef int asked(KafkaRequest call, BodyNotes notes) except -1
cdef int received(KafkaRows rows, BatchVerifier verifier, Frame frame, KafkaRequest call, ApiVersion api, BodyNotes notes, str role) except -1
cdef long long waited_for_data(Frame frame, KafkaRequest call, BodyNotes notes)
