cdef class PlainState:
    pass
