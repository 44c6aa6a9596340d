cimport cython
from dissectors.session.frame cimport Frame
from dissectors.rows.fields cimport ABSENT
from dissectors.tcp.numbers cimport SEGMENT_FIELDS, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_START, SEGMENT_TIME

cpdef enum:
    MORE = 0
    INVALID = -1

cdef object Gap
cdef Py_ssize_t _HEAD

@cython.final
cdef class Inbox:
    cdef readonly int direction
    cdef public object search
    cdef public long long size
    cdef public Py_ssize_t pos
    cdef readonly Py_ssize_t end
    cdef public bytes buf
    cdef public long long _base
    cdef public object _segments
    cdef long long[::1] _numbers
    cdef Py_ssize_t _count
    cdef Py_ssize_t _mark
    cdef public list _parts
    cdef public long long _parts_size
    cdef public bint _gathers
    cdef public list _queue
    cdef public long long _queued
    cdef public long long _taken
    cdef public list _holes
    cdef public long long _given_up
    cdef public long long remembers
    cdef public bytes _past
    cdef public long long _past_base
    cdef public object _past_segments

    cdef long long order_at(self, Py_ssize_t index)
    cpdef object located(self, long long offset)
    cpdef bint pull(self) except -1
    cdef object _next_event(self)
    cpdef Frame cut(self, Py_ssize_t end)
    cpdef settle(self)
    cdef Py_ssize_t _segment(self, long long offset)
    cdef int _show(self, long long base, bytes buf, object segments, Py_ssize_t pos) except -1
