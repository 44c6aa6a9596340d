from dissectors.session.frame cimport Frame
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.decode cimport Body
from dissectors.iggy.exchanges cimport IggyExchanges
from dissectors.iggy.pending cimport Answer
from dissectors.iggy.frames cimport PREFIX
from dissectors.wire.reader cimport WireReader, reader

cdef str HELD, UNSURE
cdef object layouts

cdef enum:
    CLIENT = 0

cdef class Legacy(PlainState):
    cdef public IggyExchanges _exchanges
    cdef public bint resolving

    cpdef int on_frame(self, Frame frame, long long lost) except -1
    cdef int _request(self, Frame frame, long long code) except -1
    cdef int _answer(self, Frame frame, long long status, long long length, long long lost) except -1
