from dissectors.wire.reader cimport WireReader

cpdef long long measure(str framing, int direction, bytes buf, Py_ssize_t pos, Py_ssize_t end, long long most) except -2
cdef long long _measure_vsr(bytes buf, Py_ssize_t pos, Py_ssize_t end, long long most) except -2
