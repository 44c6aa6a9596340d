cimport cython
from dissectors.tcp.numbers cimport MASK, SIGN, SIGNATURES, UNKNOWN_ORDER
from dissectors.tcp.stalls cimport Stalls

@cython.final
cdef class Half:
    cdef readonly int direction
    cdef public bint started
    cdef public bint syn
    cdef public long long base
    cdef public long long next
    cdef public long long expect
    cdef public long long top
    cdef public list held
    cdef public long long held_bytes
    cdef public long long acked
    cdef public long long ack_waived_to
    cdef public long long fin
    cdef public bint finished
    cdef public object hole_since
    cdef public object ack_wait_since
    cdef public long long control_ns
    cdef public long long strays
    cdef long long signatures[16]
    cdef public long long noted
    cdef public list recent
    cdef public list out
    cdef public list resent
    cdef public list conflicts
    cdef public long long more_conflicts
    cdef public long long fin_order
    cdef public long long fin_ns
    cdef public long long rst_order
    cdef public long long again_to
    cdef public long long packets
    cdef public long long bytes
    cdef public long long retransmissions
    cdef public long long retransmitted_bytes
    cdef public long long duplicates
    cdef public long long out_of_order
    cdef public long long gaps
    cdef public long long gap_bytes
    cdef public long long cut_bytes
    cdef public long long zero_windows
    cdef public long long keep_alives
    cdef public long long rival
    cdef public Stalls stalls

    cdef int start(self, long long seq, bint syn) except -1
    cdef long long offset(self, long long seq)
    cdef int sign(self, long long signature) except -1
    cdef bint was_last(self, long long signature)
    cdef bint knows(self, long long signature)
    cdef int settle(self, long long number) except -1

cdef long long _apart(long long a, long long b)
