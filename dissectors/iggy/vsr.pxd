from dissectors.session.frame cimport Frame
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.decode cimport Body
from dissectors.iggy.era cimport Era
from dissectors.iggy.exchanges cimport IggyExchanges
from dissectors.iggy.frames cimport COMMAND_AT, COMMAND_END, EVICTION, HEADER, REASON_AT, REPLY, REQUEST
from dissectors.iggy.pending cimport Answer, IggyRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport int64

cdef str ORPHAN, PUSH, UNKNOWN, _CHECKED, _MULTIPLEXED
cdef int CLIENT, NON_REPLICATED, _CLUSTER, _CLUSTER_END, _REGISTER
cdef object layouts, replica, result_section, tables, vsr_reply, vsr_request

cdef class Vsr(PlainState):
    cdef public IggyExchanges _exchanges
    cdef public Era _era

    cpdef int on_frame(self, Frame frame, long long lost) except -1
