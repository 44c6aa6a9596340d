cimport cython
from dissectors.pulsar.decode cimport CommandLayout
from dissectors.pulsar.fields cimport *
from dissectors.pulsar.pending cimport PulsarRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.wire.protobuf cimport MessageFields

cdef str _name(MessageFields fields, Py_ssize_t field)
