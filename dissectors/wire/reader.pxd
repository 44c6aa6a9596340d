cimport cython

cdef extern from *:
    """
    #define SIGN32 0x80000000LL
    #define TWO32 0x100000000LL
    """
    const long long SIGN32, TWO32

cdef enum:
    PLAIN = 0
    WIDE = 1
    COMPACT = 2
    LENGTH_BYTES = 5
    VARINT_BYTES = 10

@cython.final
cdef class WireReader:
    cdef readonly bytes source
    cdef const unsigned char[::1] data
    cdef public Py_ssize_t pos
    cdef readonly Py_ssize_t end

    cpdef int open(self, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cpdef Py_ssize_t left(self) noexcept
    cpdef int skip(self, long long size) except -1
    cpdef Py_ssize_t take(self, long long size) except -1
    cpdef long long u8(self)
    cpdef long long i8(self)
    cpdef long long u16(self)
    cpdef long long i16(self)
    cpdef long long u32(self)
    cpdef long long i32(self)
    cpdef long long i64(self)
    cpdef long long integer(self, int size)
    cpdef long long u16le(self)
    cpdef long long u32le(self)
    cpdef long long i64le(self)
    cpdef long long uvarint(self)
    cpdef long long varint(self)
    cpdef long long announced(self, int kind)
    cpdef long long length(self, int kind)
    cpdef int skip_tags(self) except -1

cpdef WireReader reader()
