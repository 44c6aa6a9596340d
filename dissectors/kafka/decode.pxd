cimport cython
from dissectors.kafka.body_notes cimport BodyNotes
from dissectors.kafka.walk cimport Walker
from dissectors.kafka.words cimport MessageWords

cdef MessageWords NO_MESSAGE

cpdef enum:
    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    INIT_PRODUCER_ID = 22
    END_TXN = 26
    TXN_OFFSET_COMMIT = 28
    UNSUPPORTED_VERSION = 35
    ENVELOPE = 58
    FETCH_SNAPSHOT = 59
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79

@cython.final
cdef class ApiVersion:
    cdef readonly int key
    cdef readonly int version
    cdef readonly str name
    cdef readonly bint known
    cdef readonly bint special
    cdef readonly bint eventful
    cdef readonly bint has_client_id
    cdef readonly bint request_tags
    cdef readonly bint response_tags
    cdef MessageWords _request_words
    cdef MessageWords _response_words
    cdef MessageWords _request_positions
    cdef MessageWords _response_positions

    cpdef MessageWords request_words(self)
    cpdef MessageWords response_words(self)
    cpdef BodyNotes note_request(self, Walker walker, bytes data, Py_ssize_t at, Py_ssize_t end)
    cpdef BodyNotes note_response(self, Walker walker, bytes data, Py_ssize_t at, Py_ssize_t end)

cpdef ApiVersion api_version(int key, int version)
