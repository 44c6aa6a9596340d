from dissectors.frame cimport Frame
from dissectors.reporter cimport ConnectionReporter

cdef class Framing(ConnectionReporter):
    cdef public tuple inboxes
    cdef public object resends
    cdef public list _searches
    cdef public object _budgets
    cdef public bint _gave_up
    cdef public long long frames
    cdef public long long framed_bytes
    cdef public long long skipped_bytes
    cdef public long long pending_bytes
    cdef public long long waited

    cpdef long long measure(self, int direction, bytes buf, Py_ssize_t pos, Py_ssize_t end)
    cpdef on_frame(self, Frame frame)
