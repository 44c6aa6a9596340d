cimport cython
from dissectors.tcp.numbers cimport DUPLICATE_ACKS, LATE_ACK_NS, LATEST_ACK_NS, SHORTEST_STALL_NS, TIMER_NS

@cython.final
cdef class Stalls:
    cdef public long long advanced_ns
    cdef public long long late_ack_ns
    cdef public long long duplicate_acks
    cdef public long long duplicate_ack_ns
    cdef public long long window
    cdef public long long closed_ns
    cdef public long long opened_ns
    cdef public long long until_ns
    cdef public long long count
    cdef public list noted
    cdef public long long flight_ns
    cdef public long long flight_offset
    cdef public long long idle_ns
    cdef public long long largest_sent
    cdef public long long largest_delivered
    cdef public object vain

    cdef int depart(self, long long idle_ns, long long time, long long offset) except -1
    cdef int arrive(self) except -1
    cdef int see_window(self, long long window, long long time) except -1
    cdef int see_ack(self, bint is_new, bint is_all, long long time) except -1
