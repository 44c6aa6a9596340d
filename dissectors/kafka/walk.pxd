cimport cython
from dissectors.kafka.body_notes cimport *
from dissectors.kafka.words cimport *
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.reader cimport WireReader

cdef enum:
    LONGEST_THROTTLE = 3600000
    CODE_READ = 0
    TEXT_AT = 1
    TEXT_SIZE = 2

@cython.final
cdef class Walker:
    cdef readonly bint positions
    cdef readonly BodyNotes notes
    cdef readonly WireReader reader
    cdef MessageWords message
    cdef long long[:, ::1] slots
    cdef long long number
    cdef bint checking
    cdef Py_ssize_t stop
    cdef const unsigned char[::1] codes

    cpdef BodyNotes note(self, MessageWords message, bytes data, Py_ssize_t start, Py_ssize_t end)
    cpdef bint makes_sense(self, MessageWords message, bytes data, Py_ssize_t start, Py_ssize_t end)
    cpdef list fitting(self, list[MessageWords] messages, bytes data, Py_ssize_t start, Py_ssize_t end)
    cpdef Py_ssize_t after_tags(self, bytes data, Py_ssize_t at) except -1
    cdef int _begin(self, MessageWords message, bytes data, Py_ssize_t start, Py_ssize_t end) except -1
    cdef bint _run(self, Py_ssize_t at, Py_ssize_t last, long long topic, long long partition) except -1
    cdef long long _count(self, int kind, int counted)
    cdef bint _tags(self, long long left, Py_ssize_t first, Py_ssize_t behind, long long topic, long long partition) except -1
    cdef long long _topic(self, Py_ssize_t name_at, long long name_size, Py_ssize_t id_at, long long listed)
    cdef int _pair(self, long long topic, long long partition, long long kind) except -1
    cdef int _position(self, long long topic, long long partition, long long what, long long stated, long long elements) except -1
    cdef int _error_text(self, long long size, int error, int slot) except -1
    cdef int _fault(self, Py_ssize_t at, long long topic, long long partition) except -1
    cdef bint _is_within(self) except -1
    cdef bint _is_sized(self, long long size, long long printable) except -1
