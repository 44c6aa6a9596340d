"""Every limit, named in one place, with its default and its reason. Reaching one is a finding, never a crash."""

from __future__ import annotations

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on what one process keeps and believes."""

    block_bytes: int = 8 * MIB
    """Bytes of a capture file read at once: large enough for column speed, small enough for flat memory."""

    block_packets: int = 32_768
    """Packets in a block: small ones would make columns many times larger than the bytes they come from."""

    packet_bytes: int = 16 * MIB
    """A packet record that announces more is not a packet: the file is damaged there."""

    frame_bytes: int = 256 * MIB
    """A frame that announces more is malformed. Kafka's own default is 100 MiB, Pulsar's 5 MiB, Iggy's 64 MiB."""

    command_bytes: int = 8 * MIB
    """A larger Pulsar command or message metadata is not decoded: two bytes may unfold into an object of fifty."""

    decompressed_bytes: int = 256 * MIB
    """Ceiling for one decompressed batch."""

    reorder_bytes: int = 8 * MIB
    """Segments of one direction held back behind a hole; beyond this the hole is declared lost."""

    reorder_packets: int = 8192
    """The same, counted in segments."""

    grace_packets: int = 64
    """Packets of the connection that a hole may outlast after the peer acknowledged it: captures re-order."""

    grace_ns: int = 500_000_000
    """The same in capture time."""

    linger_ns: int = 60_000_000_000
    """A packet that comes this long after a connection closed belongs to a new one (2 x MSL of common stacks)."""

    sniff_bytes: int = 64 * KIB
    """Bytes of a stream that recognition looks at before it gives up."""

    held_bytes: int = 16 * MIB
    """Bytes of one direction that wait for the other to be re-synchronised."""

    suspects: int = 1000
    """Units with a wrong checksum that forensics looks into; of more it tells the verdict only."""

    suspect_bytes: int = 256 * MIB
    """Bytes of such units kept."""

    memory_bytes: int = 1024 * MIB
    """What a process may use. Half of it is for the block in work and the rows; when what connections hold grows beyond
    the other half, the largest unfinished frames are given up, then what is kept of idle connections."""

    recent_bytes: int = 8 * MIB
    """Delivered bytes kept, over all connections, to compare retransmissions with."""

    pending: int = 100_000
    """Requests of one connection that may wait for their answers."""

    decode_bytes: int = 32 * MIB
    """Packets brought to their conversations before these decode them: what many connections say alike is decoded
    together."""

    flows: int = 150_000
    """Connections followed at once, some 10 KB each; beyond it the longest idle ones are closed early."""

    rows: int = 32_000
    """Rows of a table gathered before they become a record batch."""

    spill_bytes: int = 64 * MIB
    """Finished record batches kept in memory while a name in them is still unknown; more goes to a temporary file."""
