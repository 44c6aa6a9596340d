cimport cython

cdef int copy(unsigned char[::1] target, Py_ssize_t at, const unsigned char[::1] source, Py_ssize_t start, Py_ssize_t size) except -1
cpdef bytes part(bytes data, Py_ssize_t start, Py_ssize_t end)
@cython.locals(buffer="const unsigned char[::1]", target="char*")
cpdef bytes gather(list buffers, const long long[::1] which, const long long[::1] at, const long long[::1] sizes, Py_ssize_t count, Py_ssize_t total)
cpdef long long crc32c(const unsigned char[::1] data, Py_ssize_t start, Py_ssize_t end) except -1
cdef int _check(Py_ssize_t at, Py_ssize_t size, Py_ssize_t length) except -1
