from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.decode cimport Body
from dissectors.iggy.era cimport Era
from dissectors.iggy.message cimport MASK64, OFFSET, ORIGIN, TIMESTAMP, IggyUnit, MessageRun
from dissectors.iggy.pending cimport BatchFacts, IggyRequest
from dissectors.iggy.state cimport IggyState
from dissectors.iggy.verify cimport verify
from dissectors.session.exchange cimport PendingRequest, Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable, int64

cdef str CALL, CONSUME, FAILED, OK, ONE_WAY, PRODUCE, UNKNOWN

cdef extern from *:
    """
    #define LARGEST 0x7FFFFFFFFFFFFFFFLL
    """
    const long long LARGEST

cdef enum:
    NS_PER_US = 1000

cdef class DialectRows(PlainState):
    cdef public object conn
    cdef public object sink
    cdef public Era era
    cdef public list exchanges
    cdef public list batches

cdef class IggyRows(PlainState):
    cdef public object conversation
    cdef public DialectRows dialects
    cdef public Report report
    cdef public IggyState state
    cdef public bint shows_bodies

    cpdef int report_request(self, str kind, IggyRequest request, until) except -1
    cpdef int report_answer(self, IggyRequest request, FrameFacts facts, errors=*, str status=*, str shown=*, long long long_poll=*) except -1
    cdef int _report_exchange(self, str kind, PendingRequest request, FrameFacts facts, errors, str status, str shown, long long long_poll) except -1
    cdef int _report_sent(self, IggyRequest request, str outcome) except -1
    cpdef object batches(self, MessageRun run, Frame frame, FrameFacts facts, str role, long long partition, PendingRequest request, bytes key=*)
    cpdef int report_batches(self, MessageRun run, Frame frame, FrameFacts facts, str role, long long partition, PendingRequest request) except -1
    cdef int _describe(self, BatchFacts batch, MessageRun run, IggyUnit unit, verdict, Frame frame) except -1
    cdef int _report_batch(self, BatchFacts batch, PendingRequest request, FrameFacts facts, str outcome) except -1

cdef long long _ns(long long us)
cdef long long _known_ns(long long ns)
