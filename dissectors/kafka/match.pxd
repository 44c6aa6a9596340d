cimport cython
from dissectors.kafka.pending cimport KafkaRequest

@cython.final
cdef class KafkaPendingRequests:
    cdef public long long limit
    cdef public long long arrived
    cdef public long long count
    cdef public long long lost
    cdef public long long newest
    cdef public dict by_id
    cdef public dict again

    cpdef KafkaRequest add(self, KafkaRequest call)
    cpdef KafkaRequest take(self, long long correlation_id)
    cpdef list passed(self, KafkaRequest call)
