from dissectors.iggy.carried cimport Carried

cdef class Era(Carried):
    cdef public bint fixed
    cdef public long long allowed
    cdef public long long _possible
    cdef public list hints
    cdef public list evidence
    cdef public long long revised
    cdef public long long _strikes
    cdef public long long _doubt
    cdef public bint settled
    cdef public Py_ssize_t best
    cdef public str dialect
