from dissectors.session.frame cimport FrameFacts
from dissectors.pulsar.decode cimport PulsarCommand
from dissectors.pulsar.fields cimport (
    ACK_ACK_TYPE,
    ACK_MESSAGE_ID,
    ACK_TXNID_LEAST_BITS,
    CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL,
    CLOSE_CONSUMER_ASSIGNED_BROKER_SERVICE_URL_TLS,
    CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL,
    CLOSE_PRODUCER_ASSIGNED_BROKER_SERVICE_URL_TLS,
    CONSUMER_STATS_RESPONSE_MSG_BACKLOG,
    FLOW_MESSAGE_PERMITS,
    GET_LAST_MESSAGE_ID_RESPONSE_CONSUMER_MARK_DELETE_POSITION,
    GET_LAST_MESSAGE_ID_RESPONSE_LAST_MESSAGE_ID,
    ID_ACK_SET,
    LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL,
    LOOKUP_TOPIC_RESPONSE_BROKER_SERVICE_URL_TLS,
    LOOKUP_TOPIC_RESPONSE_RESPONSE,
    SEEK_MESSAGE_ID,
)
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.session.exchange cimport Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable

cdef enum:
    CUMULATIVE = 1
    CONNECT_THERE = 1

cpdef int stated(Report report, FrameFacts facts, PulsarCommand command, PulsarRequest request) except -1
cdef int _write(Report report, FrameFacts facts, PulsarRequest request, str what, long long value, long long ledger) except -1
cdef Py_ssize_t _opened(Report report, FrameFacts facts, PulsarRequest request, str what) except -1
cdef int _owned(Report report, FrameFacts facts, PulsarRequest request, str owner) except -1
