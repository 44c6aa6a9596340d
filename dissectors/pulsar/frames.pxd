cdef enum:
    LEAST = 10
    SIZE_BYTES = 5
    TYPE_TAG = 0x08

cpdef long long measure(bytes buf, Py_ssize_t pos, Py_ssize_t end, long long limit)
cdef long long _u32(bytes buf, Py_ssize_t at)
