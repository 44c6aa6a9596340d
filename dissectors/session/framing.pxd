from dissectors.session.closing cimport Closing
from dissectors.session.frame cimport Frame
from dissectors.session.inbox cimport INVALID, MORE, Inbox
from dissectors.session.reporter cimport ConnectionReporter

cdef extern from *:
    """
    #define NEVER (1LL << 62)
    """
    const long long NEVER

cdef int CLIENT, SERVER

cdef class Framing(ConnectionReporter):
    cdef public tuple inboxes
    cdef public object resends
    cdef public Closing closing
    cdef public object _budgets
    cdef public bint _gave_up
    cdef public long long frames
    cdef public long long framed_bytes
    cdef public long long skipped_bytes
    cdef public long long pending_bytes

    cpdef long long measure(self, int direction, bytes buf, Py_ssize_t pos, Py_ssize_t end)
    cpdef on_frame(self, Frame frame)
    cpdef cut_frames(self, bint final)
    cdef long long _next_order(self, Inbox inbox, bint final)
    cdef int _take(self, Inbox inbox, bint final) except -1
    cdef int _hand_over(self, Inbox inbox, Py_ssize_t end) except -1

cdef bint _is_unmeasured(Inbox inbox)
