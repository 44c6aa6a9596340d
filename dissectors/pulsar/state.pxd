cimport cython
from dissectors.pulsar.decode cimport CommandLayout
from dissectors.pulsar.fields cimport *
from dissectors.pulsar.names cimport Endpoint, PulsarNames
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.protobuf cimport MessageFields, MessageShape

cdef object short, topic
cdef dict SUBJECTS, _UPDATES
cdef MessageShape _FEATURES, _SUBSCRIPTION

cdef enum:
    NEWEST = 1073741824

@cython.final
cdef class PulsarState:
    cdef public PulsarNames names
    cdef public str dialect
    cdef public str client_software
    cdef public str client_version
    cdef public str server_version
    cdef public object max_message_size
    cdef public bint connected
    cdef public bint source_receipts
    cdef public long long version
    cdef public long long _client_version
    cdef public bint _client_sources

    cpdef int update(self, int code, MessageFields fields, PulsarRequest request) except -1
    cpdef int set_subject(self, PulsarRequest request, CommandLayout layout, MessageFields fields) except -1
    cdef int _about_endpoint(self, PulsarRequest request, Endpoint endpoint) except -1

cdef str _name(MessageFields fields, Py_ssize_t field)
