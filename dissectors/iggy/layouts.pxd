cimport cython
from dissectors.iggy.walk cimport *

@cython.final
cdef class BodyLayout:
    cdef readonly str name
    cdef readonly long long releases
    cdef readonly str text
    cdef readonly str run
    cdef readonly tuple fields
    cdef readonly FieldPlan plan
    cdef readonly bint has_parts
    cdef readonly bint introduces
    cdef readonly Py_ssize_t at_auto_commit
    cdef readonly Py_ssize_t at_consumer
    cdef readonly Py_ssize_t at_count
    cdef readonly Py_ssize_t at_current_offset
    cdef readonly Py_ssize_t at_group
    cdef readonly Py_ssize_t at_messages_count
    cdef readonly Py_ssize_t at_metadata_length
    cdef readonly Py_ssize_t at_offset
    cdef readonly Py_ssize_t at_partition
    cdef readonly Py_ssize_t at_partitioning
    cdef readonly Py_ssize_t at_stored_offset
    cdef readonly Py_ssize_t at_stream
    cdef readonly Py_ssize_t at_topic
