from dissectors.wire.reader cimport WireReader

cdef enum:
    MORE = 0
    INVALID = -1
    SIZE_BYTES = 4
    HEAD_BYTES = 14
    SMALLEST_REQUEST = 8
    SMALLEST_RESPONSE = 4
    WITHOUT_CLIENT = 7
    HIGHEST_KEY = 999
    HIGHEST_VERSION = 99

cpdef long long measure_request(WireReader r, long long limit, bint raw)
cpdef long long measure_response(WireReader r, long long limit, bint raw)
