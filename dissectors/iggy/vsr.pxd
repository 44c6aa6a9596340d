from dissectors.session.frame cimport Frame
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.decode cimport Body
from dissectors.iggy.era cimport Era
from dissectors.iggy.exchanges cimport IggyExchanges
from dissectors.iggy.pending cimport Answer, IggyRequest
from dissectors.rows.fields cimport ABSENT

cdef class Vsr(PlainState):
    cdef public IggyExchanges _exchanges
    cdef public Era _era

    cpdef int on_frame(self, Frame frame, long long lost) except -1
