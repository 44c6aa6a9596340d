cimport cython
from dissectors.iggy.field_types cimport need, text
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.reader cimport WireReader, reader

cdef extern from *:
    """
    #define FIELD_MASK64 0xFFFFFFFFFFFFFFFFULL
    """
    const unsigned long long MASK64 "FIELD_MASK64"

cdef enum:
    U8 = 0
    U16 = 1
    U32 = 2
    U64 = 3
    I32 = 4
    BOOL = 5
    PACKED = 6
    OPAQUE = 7
    OPAQUE16 = 8
    OPAQUE32 = 9
    STR8 = 10
    STR32 = 11
    SECRET8 = 12
    SECRET = 13
    IDENTIFIER = 14
    CONSUMER = 15
    CONSUMER_ID = 16
    PARTITIONING = 17
    STRATEGY = 18
    FLAGGED32 = 19
    GROUP = 20
    MANY = 21
    MAYBE = 22
    OTHER = 23

    KIND = 0
    LEFT = 1
    SIZE = 2
    ONLY = 3
    COUNT_AT = 4
    PLAN_COLUMNS = 5

    NUMBER_NOTE = 0
    FORM_NOTE = 1
    NOTES = 2
    MISSING = -1

    NUMBERED = 1
    NAMED = 2
    BALANCED = 1
    PARTITION = 2
    KEY = 3

@cython.final
cdef class FieldPlan:
    cdef readonly Py_ssize_t count
    cdef readonly list names
    cdef readonly bint single
    cdef readonly list labels
    cdef readonly list parts
    cdef long long[:, ::1] rows

    cpdef Py_ssize_t place(self, str name) except -2

@cython.final
cdef class Fields:
    cdef readonly FieldPlan plan
    cdef public Py_ssize_t reached
    cdef long long[:, ::1] notes
    cdef list objects

    cpdef Py_ssize_t read(self, FieldPlan plan, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef Py_ssize_t _sized(self, Py_ssize_t i, long long kind, WireReader r, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef Py_ssize_t _formed(self, Py_ssize_t i, long long kind, WireReader r, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef Py_ssize_t _identifier(self, Py_ssize_t i, WireReader r, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef Py_ssize_t _partitioning(self, Py_ssize_t i, WireReader r, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cdef Py_ssize_t _composed(self, Py_ssize_t i, long long kind, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
    cpdef long long number(self, Py_ssize_t i)
    cpdef long long form(self, Py_ssize_t i)
    cpdef bytes key(self, Py_ssize_t i)
    cpdef object identity(self, Py_ssize_t i)
    cpdef dict values(self)
    cpdef object whole(self)
    cpdef object value(self, Py_ssize_t i)

cdef long long _number(WireReader r, long long kind)
