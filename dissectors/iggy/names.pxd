from dissectors.iggy.carried cimport Carried

cdef class IggyNames(Carried):
    cdef public str _root
    cdef public object _sink
    cdef public dict _streams
    cdef public dict _reported
    cdef public dict _shown

    cpdef tuple topics(self, object stream, object topic)
