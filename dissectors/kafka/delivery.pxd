from dissectors.kafka.record_batch cimport RecordBatch
from dissectors.rows.fields cimport ABSENT

cdef enum:
    READ_COMMITTED = 1

cpdef long long delivered(bytes data, list[RecordBatch] found, long long fetch_offset, aborted, long long limit)
