cimport cython
from dissectors.session.conversation cimport Conversation
from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.session.inbox cimport INVALID, MORE
from dissectors.kafka.body_notes cimport BodyNotes
from dissectors.kafka.decode cimport API_VERSIONS, FETCH, FETCH_SNAPSHOT, PRODUCE, SHARE_FETCH, ApiVersion, api_version
from dissectors.kafka.fetch cimport asked, received, waited_for_data
from dissectors.kafka.frames cimport measure_request, measure_response, names_client
from dissectors.kafka.match cimport KafkaPendingRequests
from dissectors.kafka.names cimport TopicNames
from dissectors.kafka.request_sizes cimport RequestSizes
from dissectors.kafka.pending cimport KafkaRequest, new_request
from dissectors.kafka.produce cimport sent, settle
from dissectors.kafka.rows cimport KafkaRows
from dissectors.kafka.sessions cimport FetchSessions
from dissectors.kafka.verify cimport BatchVerifier
from dissectors.kafka.walk cimport Walker
from dissectors.kafka.words cimport ACKS_PLACE, SESSION_PLACE
from dissectors.session.exchange cimport queued
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable
from dissectors.wire.memory cimport part
from dissectors.wire.reader cimport WireReader

cdef str CALL, OK, ONE_WAY, ORPHAN, UNANSWERED
cdef int SERVER
cdef object positions, special

cdef enum:
    CLIENT = 0
    REQUEST_AT_LEAST = 12
    RESPONSE_AT_LEAST = 8
    BEHIND_ID = 14
    WITHOUT_ID = 12

cdef class KafkaConversation(Conversation):
    cdef public bint midstream
    cdef public bint answered
    cdef public long long answered_ns
    cdef public KafkaPendingRequests waiting
    cdef public KafkaRows rows
    cdef public BatchVerifier verifier
    cdef public object events
    cdef public FetchSessions sessions
    cdef public RequestSizes used
    cdef public object precedents
    cdef public bint raw_sasl
    cdef public list tokens
    cdef public tuple software
    cdef public long long last_id
    cdef public long long first_fetch
    cdef public dict known_clients
    cdef public tuple unknown_apis
    cdef public list holes_of_client
    cdef public object _resync
    cdef public object _recovery
    cdef public object _orphans
    cdef public bytes client_raw
    cdef public long long client_size
    cdef public KafkaRequest newest
    cdef public bint _holding
    cdef public object _doubts
    cdef public object _lost
    cdef public object served
    cdef long long _frame_limit
    cdef Walker _requests
    cdef Walker _answers

    cdef _request(self, Frame frame)
    cdef KafkaRequest _open_request(self, Frame frame, Py_ssize_t have)
    cdef str _client(self, Frame frame, Py_ssize_t start, Py_ssize_t end, Py_ssize_t have)
    cdef _request_body(self, Frame frame, KafkaRequest call, ApiVersion api, Py_ssize_t at, Py_ssize_t have)
    cdef _response(self, Frame frame)
    cdef _answer(self, Frame frame, KafkaRequest call, ApiVersion api, Py_ssize_t have)
    cdef _answer_noted(self, Frame frame, KafkaRequest call, ApiVersion api, BodyNotes notes, Py_ssize_t have, str body)
