from dissectors.session.frame cimport FrameFacts
from dissectors.iggy.decode cimport Body
from dissectors.iggy.layouts cimport BodyLayout
from dissectors.iggy.message cimport OFFSET, MessageRun
from dissectors.iggy.pending cimport IggyRequest
from dissectors.session.exchange cimport Report
from dissectors.rows cimport fields
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport RowTable

cpdef int answered(Report report, IggyRequest request, Body read, FrameFacts facts) except -1
cdef int _section(Report report, IggyRequest request, FrameFacts facts, dict section) except -1
cdef int _partition(Report report, IggyRequest request, FrameFacts facts, BodyLayout layout, Body read) except -1
cdef int _write(Report report, IggyRequest request, FrameFacts facts, long long partition, str what, long long value) except -1
