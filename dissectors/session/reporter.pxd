cdef class ConnectionReporter:
    cdef public object conn
    cdef public object sink
    cdef public object options
    cdef public object bases
    cdef public object _early
