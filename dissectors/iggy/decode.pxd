cimport cython
from dissectors.iggy.batches cimport read as read_run
from dissectors.iggy.era cimport Era
from dissectors.iggy.layouts cimport BodyLayout
from dissectors.iggy.message cimport MessageRun
from dissectors.iggy.walk cimport Fields
from dissectors.rows.fields cimport ABSENT

cdef object _here

@cython.final
cdef class Body:
    cdef public BodyLayout layout
    cdef readonly Fields fields
    cdef public MessageRun run
    cdef MessageRun _run
    cdef public str problem
    cdef public Py_ssize_t at
    cdef public Py_ssize_t trailing

    cpdef int clear(self, BodyLayout layout) except -1
    cpdef int read(self, BodyLayout layout, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cpdef int read_part(self, BodyLayout layout, bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit) except -1

cpdef bint metadata_fits(BodyLayout layout, Fields fields, Py_ssize_t start, Py_ssize_t after)
cpdef long long announced(BodyLayout layout, Fields fields)
cpdef Body body(str side, long long code, Era era, bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit)
cdef Body _tried(str side, found, Era era, bytes buf, Py_ssize_t pos, Py_ssize_t end)
cdef bint _is_nearer(Body one, Body other) except -1
