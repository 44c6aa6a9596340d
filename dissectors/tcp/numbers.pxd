cdef extern from *:
    """
    #define MASK 0xFFFFFFFFLL
    #define SIGN 0x80000000LL
    #define UNKNOWN_ORDER (1LL << 62)
    """
    const long long MASK
    const long long SIGN
    const long long UNKNOWN_ORDER

cdef enum:
    FIN = 1
    SYN = 2
    RST = 4
    PSH = 8
    ACK = 16
    UNPLACED = -2
    FAR = 1073741824
    WINDOW = 67108864
    STRAYS = 16
    ORDER_SHIFT = 16
    DELIVERIES = 65535
    SIGNATURES = 16
    NAMED = 1
    COPY_NS = 100000000
    UNACKED_GRACE = 8
    SEGMENT_START = 0
    SEGMENT_ORDER = 1
    SEGMENT_PACKET = 2
    SEGMENT_TIME = 3
    SEGMENT_FIELDS = 4
    BOTH = 2
    DUPLICATE_ACKS = 3
    TIMER_NS = 150000000
    LATE_ACK_NS = 20000000
    LATEST_ACK_NS = 500000000
    SHORTEST_STALL_NS = 1000000
