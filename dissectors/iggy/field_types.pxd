cpdef Py_ssize_t need(Py_ssize_t pos, long long size, Py_ssize_t end, str what) except -1
cpdef str text(bytes buf, Py_ssize_t start, Py_ssize_t end)
