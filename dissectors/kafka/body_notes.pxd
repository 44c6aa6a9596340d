cimport cython
from dissectors.wire.memory cimport part
from dissectors.kafka.words cimport FORGOTTEN, GROUP_PLACE, KEY_TYPE_PLACE, NUMBERED, VALUE_COUNT, MessageWords
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

    AT_TOPIC = 0
    AT_PARTITION = 1
    WHAT = 2
    STATED = 3
    ELEMENTS = 4

cdef Py_ssize_t _FIRST_ROWS, _MOST_ROWS, _LONGEST_KEPT, _MOST_KEPT

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
@cython.freelist(64)
cdef class RecordSet:
    cdef public object topic
    cdef public long long partition
    cdef public Py_ssize_t start
    cdef public long long size
    cdef public list batches
    cdef public bint malformed

@cython.final
cdef class BodyNotes:
    cdef readonly bint whole
    cdef readonly long long partitions
    cdef long long throttle
    cdef Py_ssize_t groups
    cdef Py_ssize_t both
    cdef NoteRows named
    cdef NoteRows record_sets
    cdef NoteRows errors
    cdef NoteRows placed
    cdef NoteRows positions
    cdef long long[:, ::1] kept
    cdef bytes data
    cdef MessageWords message
    cdef dict _texts
    cdef tuple _only
    cdef Py_ssize_t _sought
    cdef dict _places

    cdef int begin(self, bytes data, MessageWords message) except -1
    cpdef tuple topics(self)
    cpdef list names(self)
    cpdef list sets(self)
    cpdef list faults(self)
    cpdef list pairs(self)
    cpdef list forgotten(self)
    cpdef long long placed_number(self, topic, long long partition)
    cdef placed_topic(self, Py_ssize_t i)
    cdef long long placed_partition(self, Py_ssize_t i)
    cdef long long placed_offset(self, Py_ssize_t i)
    cdef bint is_forgotten(self, Py_ssize_t i)
    cpdef long long number(self, Py_ssize_t place)
    cpdef text(self, Py_ssize_t place)
    cpdef group(self)
    cpdef dict values(self)
    cdef bint _is_placed(self, Py_ssize_t i, topic, long long partition)
    cdef object _value(self, Py_ssize_t place)
    cdef list _pairs(self, bint forgotten)
    cpdef list stated(self)
    cpdef list stated_numbers(self, Py_ssize_t i, Py_ssize_t size)
    cpdef str stated_text(self, Py_ssize_t i)
    cdef object _topic(self, Py_ssize_t i)
    cdef bytes _id(self, Py_ssize_t i)
    cdef str _text(self, Py_ssize_t at, Py_ssize_t size)

cdef object _present(long long number)
