from dissectors.session.framing cimport Framing

cdef class Conversation(Framing):
    cdef public bint closed
    cdef public object last_ns
    cdef public bint hung_up
