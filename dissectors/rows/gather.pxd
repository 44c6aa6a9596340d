cimport cython
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.memory cimport copy

cdef enum:
    MOST = 0x7FFFFFFF
    ID_SIZE = 16
    LONGEST_ID = 37

@cython.locals(ends="int[::1]", out="unsigned char[::1]")
cpdef tuple numbered(const unsigned char[::1] arena, const long long[::1] starts, const long long[::1] which)
@cython.locals(ends="int[::1]", out="unsigned char[::1]")
cpdef tuple exchange_ids(const unsigned char[::1] conn_ids, const long long[::1] conns, const long long[::1] marks)
@cython.locals(ends="int[::1]", out="unsigned char[::1]")
cpdef tuple checksums(const long long[::1] values)
