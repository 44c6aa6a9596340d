cimport cython
from dissectors.kafka.words cimport FORGOTTEN, NUMBERED, VALUE_COUNT, MessageWords
from dissectors.rows.fields cimport ABSENT

cdef enum:
    NAME_AT = 0
    NAME_SIZE = 1
    ID_AT = 2
    LISTED = 3

    SET_TOPIC = 0
    SET_PARTITION = 1
    SET_AT = 2
    SET_SIZE = 3

    CODE = 0
    FAULT_TOPIC = 1
    FAULT_PARTITION = 2
    SCOPE = 3
    MESSAGE_AT = 4
    MESSAGE_SIZE = 5

    PAIR_TOPIC = 0
    PAIR_PARTITION = 1
    NUMBER = 2
    PAIR_KIND = 3

@cython.final
cdef class NoteRows:
    cdef Py_ssize_t width
    cdef Py_ssize_t count
    cdef long long[:, ::1] cells

    cdef Py_ssize_t add(self) except -1
    cdef int clear(self) except -1
    @cython.locals(old="long long[:, ::1]")
    cdef int _grow(self) except -1

@cython.final
cdef class BodyNotes:
    cdef readonly bint whole
    cdef readonly long long partitions
    cdef long long throttle
    cdef Py_ssize_t groups
    cdef NoteRows named
    cdef NoteRows record_sets
    cdef NoteRows errors
    cdef NoteRows placed
    cdef long long[:, ::1] kept
    cdef bytes data
    cdef MessageWords message
    cdef list _topics
    cdef list _sets
    cdef list _faults
    cdef dict _values

    cdef int begin(self, bytes data, MessageWords message) except -1
    cdef object _value(self, Py_ssize_t place)
    cdef list _pairs(self, bint forgotten)
    cdef object _topic(self, Py_ssize_t i)
    cdef bytes _id(self, Py_ssize_t i)
    cdef str _text(self, Py_ssize_t at, Py_ssize_t size)

cdef object _present(long long number)
