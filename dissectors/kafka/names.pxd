cimport cython

@cython.final
cdef class TopicNames:
    cdef public object sink
    cdef public dict names
    cdef public dict tokens

    cpdef str name(self, topic)
    cpdef tuple all(self, tuple requested, tuple answered)
    cdef str _of_id(self, bytes topic)
