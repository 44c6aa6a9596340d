from dissectors.session.frame cimport Frame
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.era cimport Era
from dissectors.iggy.frames cimport PREFIX
from dissectors.iggy.pending cimport Answer, IggyRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.reader cimport WireReader, reader

cdef object layouts, tables
cdef long long ANY_LENGTH, DISCONNECTED

cdef class AnswerFit(PlainState):
    cdef public Era era

    cpdef bint has_payload(self, IggyRequest request) except -1

cpdef long long answer_code(IggyRequest request) except -2
