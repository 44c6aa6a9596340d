from dissectors.rows.fields cimport *
from dissectors.rows.table cimport RowTable

cdef int _write(RowTable table, Py_ssize_t slot, dict columns) except -1
cdef int _write_id(RowTable table, Py_ssize_t slot, Py_ssize_t field, begins) except -1
cdef int _write_frames(RowTable table, Py_ssize_t slot, request, response) except -1
cdef long long _elapsed(long long start, long long end)
cdef long long _number(value)
