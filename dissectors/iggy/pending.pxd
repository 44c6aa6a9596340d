cimport cython
from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.iggy.plain_state cimport PlainState
from dissectors.session.exchange cimport PendingRequest
from dissectors.rows.fields cimport ABSENT
from dissectors.rows.table cimport int64

@cython.final
cdef class BatchFacts(PlainState):
    cdef public str role
    cdef public str topic
    cdef public long long partition
    cdef public long long first
    cdef public long long last
    cdef public str position
    cdef public long long records
    cdef public long long size
    cdef public str format
    cdef public str producer
    cdef public long long producer_epoch
    cdef public long long base_sequence
    cdef public long long first_time
    cdef public long long last_time
    cdef public long long origin_time
    cdef public str checksum_kind
    cdef public str stored
    cdef public str computed
    cdef public str verdict
    cdef public long long time
    cdef public long long packet_ref
    cdef public long long stream_offset

@cython.final
cdef class IggyRequest(PendingRequest):
    cdef public object consumer
    cdef public object batches
    cdef public long long most
    cdef public long long offset
    cdef public bint auto_commit
    cdef public long long operation
    cdef public long long order
    cdef public long long partition
    cdef public long long partition_id
    cdef public bint silent
    cdef public str stream
    cdef public str user
    cdef public dict values
    cdef public bint waits
    cdef public bint well_formed

@cython.final
cdef class Answer(PlainState):
    cdef public long long order
    cdef public long long first_ns
    cdef public long long status
    cdef public long long length
    cdef public long long request_id
    cdef public long long operation
    cdef public Frame frame
    cdef public bint cut_in_header
