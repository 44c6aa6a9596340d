from dissectors.session.conversation cimport Conversation
from dissectors.session.frame cimport Frame, FrameFacts
from dissectors.iggy.era cimport Era
from dissectors.iggy.exchanges cimport IggyExchanges
from dissectors.iggy.frames cimport PREFIX, measure_legacy, measure_vsr
from dissectors.iggy.legacy cimport Legacy
from dissectors.iggy.pending cimport IggyRequest
from dissectors.iggy.vsr cimport Vsr
from dissectors.session.inbox cimport MORE

cdef str LEGACY, VSR

cdef enum:
    CLIENT = 0
    SERVER = 1

cdef class IggyConversation(Conversation):
    cdef public Era era
    cdef public IggyExchanges exchanges
    cdef public Legacy legacy
    cdef public Vsr vsr
    cdef public str framing
    cdef public bint is_vsr
    cdef public long long most
    cdef public tuple _searched
    cdef public object _turns
    cdef public long long client_end
    cdef public long long server_end
    cdef public FrameFacts _first
    cdef public long long _latest
    cdef public str _reported
    cdef public bint of_older_server

    cdef bint _answers_as_older(self, bytes buf, Py_ssize_t pos, Py_ssize_t end) except -1
