from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.iggy.answer_fit cimport AnswerFit, answer_code
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.era cimport Era
from dissectors.iggy.decode cimport Body, body
from dissectors.iggy.layouts cimport BodyLayout
from dissectors.iggy.match cimport Pairing
from dissectors.iggy.message cimport MessageRun
from dissectors.iggy.names cimport IggyNames
from dissectors.iggy.pending cimport Answer, BatchFacts, IggyRequest
from dissectors.iggy.rows cimport IggyRows
from dissectors.iggy.state cimport IggyState
from dissectors.iggy.walk cimport PARTITION, Fields
from dissectors.session.exchange cimport elapsed, queued
from dissectors.rows.fields cimport ABSENT

cdef str CONSUME, OK, ONE_WAY, PAIRED, PRODUCE, UNANSWERED
cdef int SERVER
cdef dict _NOTHING
cdef object LOGINS, NAMING, events, positions, tables

cdef enum:
    LONG_NS = 1000000000
    SINGLE_CONSUMER = 1
    CONSUMER_GROUP = 2
    EXTERNAL_GROUP = 3

cdef class IggyExchanges(PlainState):
    cdef public object conversation
    cdef public Era era
    cdef public IggyState state
    cdef public IggyRows rows
    cdef public object diagnostics
    cdef public object events
    cdef public object orphans
    cdef public AnswerFit fit
    cdef public Pairing pairing
    cdef public long long answered_ns
    cdef public bint _gave_up

    cpdef Body body(self, str side, long long code, Frame frame, Py_ssize_t start)
    cpdef IggyRequest request(self, Frame frame, long long code, str api, Body read)
    cdef int _note_fields(self, IggyRequest request, Body read) except -1
    cpdef int send(self, IggyRequest request, Body read, Frame frame) except -1
    cpdef tuple pair(self, Answer answer, long long lost)
    cpdef int answered(self, IggyRequest request, Frame frame, long long status, Py_ssize_t start) except -1
    cdef bint _shows(self, IggyRequest request) except -1
    cdef bint _matters(self, IggyRequest request) except -1
    cdef object _read_answer(self, IggyRequest request, Body read, Frame frame, FrameFacts facts)
    cdef long long _delivered(self, IggyRequest request, Body read, Frame frame, FrameFacts facts) except? -2

cpdef long long partition_of(BodyLayout layout, Fields fields)
cpdef str group_of(str api, BodyLayout layout, Fields fields)
