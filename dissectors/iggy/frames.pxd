from dissectors.session.inbox cimport INVALID, MORE
from dissectors.wire.reader cimport WireReader, reader

cdef object tables

cdef enum:
    CLIENT = 0

cpdef enum:
    HEADER = 256
    UNSEALED_END = 32
    SIZE_AT = 48
    COMMAND_AT = 60
    REASON_AT = 255
    COMMAND_END = 64
    PREFIX = 8
    RESERVED_END = 128
    LEAST_CUT = 16
    MAX_CODE = 0xFFFF
    SEND_MESSAGES = 101
    REQUEST = 5
    REPLY = 8
    EVICTION = 13

cpdef long long measure_legacy(int direction, bytes buf, Py_ssize_t pos, Py_ssize_t end, long long most) except -2
cpdef long long measure_vsr(bytes buf, Py_ssize_t pos, Py_ssize_t end, long long most) except -2
