cimport cython
from dissectors.session.frame cimport Frame
from dissectors.pulsar.fields cimport ID_ENTRY_ID, ID_LEDGER_ID
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.protobuf cimport BYTES, VARINT, MessageFields, MessageShape
from dissectors.wire.reader cimport WireReader

cdef list _LAYOUTS
cdef object _here
cdef MessageShape _ID, _NO_FIELDS

cdef enum:
    TYPE_FIELD = 1

@cython.final
cdef class CommandLayout:
    cdef readonly object type
    cdef readonly str name
    cdef readonly str field
    cdef readonly long long code
    cdef readonly MessageShape outer
    cdef readonly MessageShape shape
    cdef readonly str space
    cdef readonly Py_ssize_t first
    cdef readonly Py_ssize_t second
    cdef readonly Py_ssize_t subject
    cdef readonly str about
    cdef readonly int client_part
    cdef readonly int server_part
    cdef readonly int client_since
    cdef readonly int server_since

cpdef CommandLayout layout_of(long long code)

@cython.final
cdef class PulsarCommand:
    cdef readonly WireReader reader
    cdef readonly MessageFields outer
    cdef readonly MessageFields fields
    cdef readonly MessageFields id
    cdef readonly bytes data
    cdef readonly long long code
    cdef readonly CommandLayout layout
    cdef readonly Py_ssize_t after
    cdef readonly bint readable
    cdef readonly bint cut
    cdef readonly str defect

    cpdef int read(self, Frame frame, long long limit) except -1
    cdef int _read_whole(self, CommandLayout layout, Py_ssize_t begin) except -1
    cdef int _read_prefix(self, CommandLayout layout, Py_ssize_t begin, Py_ssize_t known) except -1
    cpdef bint read_id(self, Py_ssize_t field) except -1
    cpdef long long ledger(self)
    cpdef long long entry(self)
    cpdef long long number(self, Py_ssize_t field)
    cpdef list positions(self, long long field)

cpdef PulsarCommand command_of(Frame frame, long long limit)
