from dissectors.iggy.plain_state cimport PlainState

cdef class IggyNames(PlainState):
    cdef public str _root
    cdef public object _sink
    cdef public dict _streams
    cdef public dict _reported
    cdef public dict _shown
    cdef public object _cluster

    cpdef tuple topics(self, object stream, object topic)
