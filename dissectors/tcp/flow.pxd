cimport cython
from dissectors.tcp.half cimport Half
from dissectors.tcp.numbers cimport ACK, BOTH, MASK, SIGN, SYN

@cython.final
cdef class Flow:
    cdef public object ends
    cdef public object incarnation
    cdef public object reassembler
    cdef public tuple halves
    cdef public object opener
    cdef public long long packets
    cdef public long long first_time
    cdef public long long last_time
    cdef public long long before_ns
    cdef public long long first_packet_ref
    cdef public long long last_packet_ref
    cdef public long long last_arrival
    cdef public long long via
    cdef public bint reset
    cdef public object closed_at
    cdef public object syn_time
    cdef public object syn_ack_time
    cdef public object ack_time
    cdef public object session
    cdef public bint packable
    cdef public bint touched
    cdef public bint given_up
    cdef public long long delivered
    cdef public long long closer
    cdef public long long stream
    cdef public long long segment
    cdef public tuple segments

    cdef bint begins_anew(self, Half half, long long flags, long long seq, long long ack, long long time, long long linger_ns) except -1
    cdef int note_fin(self, Half half, Half other, long long ack) except -1
    cdef int see(self, long long time, long long packet_ref, long long arrival) except -1
