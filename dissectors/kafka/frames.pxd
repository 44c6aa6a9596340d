from dissectors.session.inbox cimport INVALID, MORE
from dissectors.wire.reader cimport WireReader

cdef enum:
    SIZE_BYTES = 4
    HEAD_BYTES = 14
    SMALLEST_REQUEST = 8
    SMALLEST_RESPONSE = 4
    WITHOUT_CLIENT = 7
    HIGHEST_KEY = 999
    HIGHEST_VERSION = 99

cpdef long long measure_request(WireReader r, long long limit, bint raw)
cpdef long long measure_response(WireReader r, long long limit, bint raw)
cpdef bint names_client(WireReader r, Py_ssize_t start, bytes client, long long size)
