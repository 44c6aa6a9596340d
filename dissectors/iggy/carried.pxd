cdef class Carried:
    pass
