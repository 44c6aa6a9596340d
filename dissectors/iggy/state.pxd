from dissectors.iggy.plain_state cimport PlainState
from dissectors.iggy.era cimport Era
from dissectors.iggy.names cimport IggyNames
from dissectors.iggy.pending cimport IggyRequest

cdef dict _CHANGES
cdef object NAMING, layouts, tables

cdef class IggyState(PlainState):
    cdef public IggyNames names
    cdef public str user
    cdef public str client_software
    cdef public str client_version
    cdef public str server_version
    cdef public Era _era

    cpdef bint is_changed_by(self, str api) except -1
    cpdef object request(self, IggyRequest request, long long partition)
    cpdef object answered(self, IggyRequest request, dict values, long long time)
