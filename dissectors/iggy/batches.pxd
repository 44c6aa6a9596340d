cimport cython
from dissectors.iggy.field_types cimport need
from dissectors.iggy.message cimport *
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.reader cimport WireReader, reader

cdef str CRC32, NONE, XXH3

cdef extern from *:
    """
    #define LARGEST 0x7FFFFFFFFFFFFFFFLL
    """
    const long long LARGEST

cdef enum:
    SEND_A = 0
    POLL_A = 1
    MESSAGE_B = 2
    FRAME = 3
    FRAME_HEADER = 48
    INDEX_ENTRY = 16

@cython.final
cdef class MessageFormat:
    cdef readonly str shown
    cdef readonly int layout
    cdef readonly int header
    cdef readonly str kind
    cdef readonly bint indexed
    cdef readonly bint typed

    cdef Py_ssize_t read(self, WireReader r, Py_ssize_t pos, Py_ssize_t end, MessageRun run) except -1

cdef Py_ssize_t _send_a(WireReader r, Py_ssize_t pos, Py_ssize_t end, MessageRun run) except -1
cdef Py_ssize_t _poll_a(WireReader r, Py_ssize_t pos, Py_ssize_t end, MessageRun run) except -1
cdef Py_ssize_t _add_a(WireReader r, Py_ssize_t pos, Py_ssize_t id_at, Py_ssize_t headers, long long size, Py_ssize_t end, MessageRun run) except -1
cdef Py_ssize_t _add_b(WireReader r, Py_ssize_t pos, Py_ssize_t lengths_at, Py_ssize_t payload, Py_ssize_t end, MessageRun run) except -1
cdef Py_ssize_t _message_b(WireReader r, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t header, MessageRun run) except -1
cpdef MessageRun read(str name, bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, long long expected=*, bint repair=*, MessageRun run=*)
cdef int _read_messages(MessageFormat form, bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, long long expected, bint repair, MessageRun run) except -1
cdef str _kind_56(MessageRun run)
cdef object _check_index(WireReader r, Py_ssize_t at, Py_ssize_t body, MessageRun run)
cdef int _read_batches(bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, long long expected, bint single, bint repair, MessageRun run) except -1
cdef IggyUnit _read_batch(bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, bint repair, MessageRun run)
cdef IggyUnit _batch_as_declared(bytes buf, Py_ssize_t pos, Py_ssize_t end, Py_ssize_t limit, MessageRun run)
cdef Py_ssize_t _frame(WireReader r, Py_ssize_t pos, Py_ssize_t end, long long base, long long base_time, long long origin, MessageRun run) except -1
cdef long long _later(long long start, long long delta)
