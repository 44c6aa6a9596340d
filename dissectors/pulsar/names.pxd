cimport cython

@cython.final
cdef class Topic:
    cdef readonly str name
    cdef readonly object partition
    cdef readonly tuple names

@cython.final
cdef class Endpoint:
    cdef readonly Topic topic
    cdef readonly str name
    cdef readonly str subscription
    cdef readonly bint compacted
    cdef readonly object epoch
    cdef readonly bint fenced

@cython.final
cdef class PulsarNames:
    cdef public dict producers
    cdef public dict consumers
    cdef public dict scalable
    cdef public bint reads_compacted
    cdef public dict _exclusive
    cdef public Py_ssize_t _limit
