from dissectors.session.conversation cimport Conversation
from dissectors.session.frame cimport Frame
from dissectors.pulsar.batches cimport PulsarEntry
from dissectors.pulsar.decode cimport PulsarCommand, CommandLayout, command_of
from dissectors.pulsar.emit cimport PulsarEmitter
from dissectors.pulsar.entries cimport Entries
from dissectors.pulsar.fields cimport PRODUCER_SUCCESS_PRODUCER_READY, SEND_RECEIPT_MESSAGE_ID
from dissectors.pulsar.frames cimport measure
from dissectors.pulsar.match cimport PulsarPendingRequests, key_of
from dissectors.pulsar.names cimport Topic
from dissectors.pulsar.pending cimport PulsarRequest, new_request
from dissectors.pulsar.permits cimport Permits
from dissectors.pulsar.state cimport PulsarState
from dissectors.rows.fields cimport ABSENT

cdef str UNKNOWN
cdef object ALWAYS_ERRORS, error_in, named_by, remark, stated
cdef long long DEFAULT_MESSAGE_BYTES, PADDING

cdef enum:
    CLIENT = 0
    SERVER = 1
    NO_REQUEST = -1

    REQUEST = 0
    INITIAL_RESPONSE = 2
    ONE_WAY = 3

    CONNECTED = 3
    SUBSCRIBE = 4
    PRODUCER = 5
    SEND = 6
    SEND_RECEIPT = 7
    SEND_ERROR = 8
    MESSAGE = 9
    ACK = 10
    SUCCESS = 13
    ERROR = 14
    PRODUCER_SUCCESS = 17

cdef const unsigned char[::1] CHANGING, GRANTING, REMARKED, CONCERNED, STATES, EVENTFUL, DECIDED, FALLIBLE

cdef class PulsarConversation(Conversation):
    cdef public PulsarState state
    cdef public PulsarPendingRequests pending
    cdef public PulsarEmitter emit
    cdef public Entries entries
    cdef public Permits permits
    cdef public object events
    cdef public long long limit
    cdef public object lost_requests
    cdef public long long client_end
    cdef public set _new_types
    cdef public bint _full
    cdef public long long _command_limit
    cdef public long long _frame_limit
    cdef public object rules
    cdef public bint _replicates

    cpdef long long measure(self, int direction, bytes buf, Py_ssize_t pos, Py_ssize_t end)
    cpdef on_frame(self, Frame frame)
    cdef int _on_request(self, Frame frame, PulsarCommand command, CommandLayout layout) except -1
    cdef int _on_one_way(self, Frame frame, PulsarCommand command, CommandLayout layout) except -1
    cdef int _on_answer(self, Frame frame, PulsarCommand command, CommandLayout layout) except -1
    cdef object _error(self, PulsarCommand command, Topic topic)
    cdef int _update(self, Frame frame, PulsarCommand command, PulsarRequest own, PulsarRequest request) except -1
    cdef int _open(self, int direction, tuple key, PulsarRequest request) except -1
    cdef tuple _find(self, Frame frame, CommandLayout layout, tuple key, bint cut)
    cdef int _close(self, Frame frame, tuple key, PulsarRequest answer, error) except -1
    cdef int _give_up(self, PulsarRequest request, until) except -1
    cdef PulsarRequest _request(self, Frame frame, PulsarCommand command, CommandLayout layout, tuple key)
    cdef int _describe(self, PulsarRequest request, Frame frame, PulsarCommand command, CommandLayout layout) except -1
