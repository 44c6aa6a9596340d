cimport cython
from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.pending cimport Answer, IggyRequest
from dissectors.rows.fields cimport ABSENT

cdef tuple _ALIGNING, _DOUBTFUL, _MULTIPLEXED, _NONE, _PIPELINED
cdef long long SEND_MESSAGES, _QUIET_NS
cdef object _BEFORE_CAPTURE, _CERTAIN, RequestHole
cdef str _PAIRED

@cython.final
cdef class Pairing(PlainState):
    cdef public object queue
    cdef public object fits
    cdef public object suits
    cdef public long long limit
    cdef public object order
    cdef public object certainty
    cdef public object origin
    cdef public list resolved
    cdef public bint search_abandoned
    cdef public object _alignment
    cdef public Py_ssize_t _before_silence
    cdef public long long _unread
    cdef public long long _steps
    cdef public long long _last_ns
    cdef public long long _answered

    cpdef object send(self, IggyRequest request)
    cpdef tuple answer(self, Answer answer, long long lost)
    cdef bint _is_for(self, IggyRequest head, Answer answer) except -1
    cdef tuple _paired(self, IggyRequest head, Answer answer)
    cdef object _note_refusal(self, IggyRequest request, Answer answer)
