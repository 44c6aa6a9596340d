cimport cython
from dissectors.kafka.decode cimport ApiVersion

cdef enum:
    SIZES = 4000

@cython.final
cdef class RequestSizes:
    cdef public tuple apis
    cdef public dict times
    cdef public ApiVersion last_api
    cdef public long long last_size
    cdef public long long last_times

    cpdef note(self, ApiVersion api, long long size)
    cdef int _add(self) except -1
