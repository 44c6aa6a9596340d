cdef class SearchBudget:
    cdef public long long base
    cdef public long long left
    cdef public long long needs
    cdef public long long passed_over
    cdef public long long _earned_to
    cdef public long long _open

    cpdef bint allows(self, long long at) except -1
    cpdef spend(self, long long size)
    cpdef begin(self)
    cpdef settle(self)
