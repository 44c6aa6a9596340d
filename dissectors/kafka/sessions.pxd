cimport cython
from dissectors.kafka.body_notes cimport BodyNotes
from dissectors.rows.fields cimport ABSENT

cdef long long NEW, FINAL
cdef dict _NONE

@cython.final
cdef class FetchSession:
    cdef public dict held
    cdef public tuple topics
    cdef public long long partitions
    cdef public long long epoch
    cdef public bint gapless

    cpdef int follow(self, long long epoch, BodyNotes notes) except -1
    cdef int change(self, BodyNotes notes) except -1
    cpdef long long fetch_offset(self, topic, long long partition)

@cython.final
cdef class FetchSessions:
    cdef public dict sessions

    cpdef FetchSession fetch(self, long long number, long long epoch, BodyNotes notes)
    cpdef int answer(self, long long number, long long epoch, FetchSession session, long long given, bint failed) except -1
