"""Every limit, named in one place, with its default and its reason. Reaching one is a finding, never a crash."""

from __future__ import annotations

from typing import NamedTuple

KIB = 1024
MIB = 1024 * KIB
SPLIT_BYTES = 128 * MIB  # of a large plain pcap that one of many readers takes

# The cost of a search for a frame start, in bytes that are read to judge whether one starts at some place. Real traffic
# has a place to judge every few kilobytes; bytes that are full of them are searched no slower than these limits say.
SEARCH_COST_PER_BYTE = 8
"""Earned with every byte searched."""

SEARCH_CANDIDATE_COST = 128
"""Of looking at a place at all, whatever its judge reads there."""

SEARCH_CREDIT = 256 * KIB
"""What each direction of a connection may spend before."""

PAIRING_STEPS_PER_FRAME = 32
"""Comparisons of an answer with a request in flight that each frame of an Iggy connection earns: where many wait and
nothing ties an answer to one of them, all are looked at. Some ten microseconds."""

PAIRING_CREDIT = 1 << 19
"""Of such comparisons, what a connection may make before."""


SHARES = 1024
"""Into which the connections of a capture point are divided by their addresses. A share is decoded by one process or
task as a whole, so that its limit means the same however the work is shared out."""


class Limits(NamedTuple):
    """Bounds on what one process keeps and believes."""

    block_bytes: int = 8 * MIB
    """Bytes of a capture file read at once: large enough for column speed, small enough for flat memory."""

    block_packets: int = 32_768
    """Packets in a block: small ones would make columns many times larger than the bytes they come from."""

    packet_bytes: int = 16 * MIB
    """A packet record that announces more is not a packet: the file is damaged there."""

    frame_bytes: int = 256 * MIB
    """A frame that announces more is malformed. Kafka's own default is 100 MiB, Pulsar's 5 MiB, Iggy's 64 MiB."""

    api_key: int = 999
    """Kafka: a request that announces a higher API key is no request. The tables end far below it."""

    api_version: int = 99
    """Kafka: the same for versions."""

    command_bytes: int = 8 * MIB
    """A larger Pulsar command or message metadata is not decoded: two bytes may unfold into an object of fifty."""

    decompressed_bytes: int = 256 * MIB
    """Ceiling for one decompressed batch."""

    message_bytes: int = 512 * MIB
    """What messages, unfolded from their batches, may take until their rows go out: a few kilobytes unfold into many
    million messages. Those beyond are left out."""

    reorder_bytes: int = 8 * MIB
    """Segments of one direction held back behind a hole; beyond this the hole is declared lost."""

    reorder_packets: int = 8192
    """Segments of one direction held back behind a hole; beyond this the hole is declared lost."""

    grace_packets: int = 64
    """Packets of the connection that a hole may outlast after the peer acknowledged it: captures re-order."""

    grace_ns: int = 500_000_000
    """Nanoseconds of capture time that a hole may outlast after the peer acknowledged it."""

    linger_ns: int = 60_000_000_000
    """A packet that comes this long after a connection closed belongs to a new one (2 x MSL of common stacks)."""

    sniff_bytes: int = 64 * KIB
    """Bytes of a stream that recognition looks at before it gives up."""

    strange_bytes: int = 16 * KIB
    """Bytes of a stream in which a protocol is looked for where its first bytes belong to none."""

    held_bytes: int = 16 * MIB
    """Bytes of one direction that wait for the other to be re-synchronised."""

    suspects: int = 1000
    """Units with a wrong checksum that forensics looks into; of more it reports the verdict only."""

    suspect_bytes: int = 256 * MIB
    """Bytes of such units kept."""

    memory_bytes: int = 1024 * MIB
    """What a process may use. Half of it is for the block in work and the rows; when what connections hold grows beyond
    the other half, the largest unfinished frames are given up, then what is kept of idle connections."""

    recent_bytes: int = 16 * MIB
    """What delivered bytes may take that are kept, over all connections, to compare retransmissions with: of each
    direction some kilobytes, for some seconds. The older ones are compressed, so that so much holds all of some 1000
    busy connections."""

    pending: int = 100_000
    """Requests of one connection that may wait for their answers."""

    decode_bytes: int = 16 * MIB
    """Packets brought to their conversations before these decode them: what many connections say alike is decoded
    together."""

    positions: int = 500_000
    """Rows of `positions` that one answer may make: ten of its bytes may make one."""

    flows: int = 100_000
    """Connections of a capture point that are followed at once. They are divided by their addresses into SHARES of
    about the same size, each of which may have its share of this number, whichever process decodes it. When one more
    opens in a full share, a tenth of the share is closed early: first connections that have ended, then those that
    carried nothing, then the longest idle ones. One that was closed early is followed again a minute later, or with a
    SYN."""

    unpacked: int = 12_000
    """Connections kept ready at once, about 6 kB each; of more, those that have ended or are idle are kept as bytes,
    about a kilobyte each, until their next packet. Each that had to be made ready again is one more that may be, for a
    while."""

    idle_ns: int = 2_000_000_000
    """Capture time after which an open connection without packets is idle."""

    endpoints: int = 400_000
    """Pairs of endpoints whose connections have ended that are remembered at least, to number the next connection
    between them; beyond it numbers are left out, but none comes twice."""

    name_wait_ns: int = 300_000_000_000
    """Capture time that a row waits for the name of an id in it. Kafka clients ask for their topics at least every five
    minutes (metadata.max.age.ms)."""

    names: int = 200_000
    """Topics, streams and the like whose names are remembered; those beyond keep their ids."""

    rows: int = 32_000
    """Rows of a table gathered before they become a record batch."""

    spill_bytes: int = 64 * MIB
    """Rows kept in memory while a name in them is unknown, or until they are in order; more goes to a temporary file,
    or out."""

    parallel_bytes: int = 16 * MIB
    """Captures with fewer bytes are decoded by one process: more would not be quicker."""
