"""Numbers that the modules of this floor share."""

from __future__ import annotations

from dissectors.capture.block import ACK as ACK
from dissectors.capture.block import FIN as FIN
from dissectors.capture.block import PSH as PSH
from dissectors.capture.block import RST as RST
from dissectors.capture.block import SYN as SYN

MASK = 0xFFFFFFFF  # of a sequence number
SIGN = 0x80000000  # what lies farther ahead than half of all sequence numbers lies behind
UNPLACED = -2  # less an acknowledgement number whose direction has not begun: its stream offset is not known yet
FAR = 1 << 30  # an acknowledgement farther ahead than any window is not believed
WINDOW = 1 << 26  # bytes; what lies farther off is not of this connection, where another may have been before it …
STRAYS = 16  # … but so many in a row of one direction are: the capture lacks what was between
UNKNOWN_ORDER = 1 << 62  # of what has not happened: behind all orders
ORDER_SHIFT = 16  # order = arrival << ORDER_SHIFT | delivery within that packet
DELIVERIES = (1 << ORDER_SHIFT) - 1  # that are told apart within a packet
SIGNATURES = 16  # packets of a direction in which a copy of a packet is looked for; a power of two
NAMED = 1  # set in the signature of a packet with data that has an IP id
COPY_NS = 100_000_000  # what has no IP id is sent again later than this, and captured twice sooner
UNACKED_GRACE = 8  # times the grace, for a hole that nobody acknowledges: its other direction may not be captured
SEGMENT_START, SEGMENT_ORDER, SEGMENT_PACKET, SEGMENT_TIME, SEGMENT_FIELDS = range(5)  # see Chunk.segments
BOTH = 2  # directions: each side sent a FIN before it saw the other's
DUPLICATE_ACKS = 3  # after so many a sender takes bytes for lost (RFC 5681)
TIMER_NS = 150_000_000  # a resend by a timer: 200 ms at least in common stacks, less what the last bytes came later
LATE_ACK_NS = 20_000_000  # an acknowledgement later than this was delayed: 40 ms and more in common stacks …
LATEST_ACK_NS = 500_000_000  # … and less than this (RFC 1122)
FULL = 1_200  # payload of a segment that may be full: 1,460 less options and tunnels
SHORTEST_STALL_NS = 1_000_000  # that is noted
