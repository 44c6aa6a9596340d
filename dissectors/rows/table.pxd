cimport cython
from dissectors.rows.fields cimport ABSENT, NUMBER, TEXT, LIST, CONN, LOOSE, UNWANTED
from dissectors.rows.texts cimport Numbered, Texts

@cython.final
cdef class RowTable:
    cdef public object layout
    cdef public Texts texts
    cdef public Numbered lists
    cdef public Numbered conns
    cdef public list loose
    cdef public list full
    cdef public Py_ssize_t rows
    cdef public object block
    cdef Py_ssize_t fields
    cdef Py_ssize_t capacity
    cdef long long[::1] _kinds
    cdef long long[:, ::1] waiting
    cdef long long[::1] _free
    cdef Py_ssize_t _free_count
    cdef Py_ssize_t _slots
    cdef long long[:, ::1] _block

    cpdef Py_ssize_t open(self) except -1
    cpdef int put(self, Py_ssize_t slot, Py_ssize_t field, object value) except -1
    cpdef int finish(self, Py_ssize_t slot) except -1
    cpdef int add(self, Py_ssize_t slot) except -1
    cpdef int drop(self, Py_ssize_t slot) except -1
    cdef int _begin_block(self) except -1
    @cython.locals(waiting="long long[:, ::1]")
    cdef int _grow(self) except -1

cpdef long long int64(value)
