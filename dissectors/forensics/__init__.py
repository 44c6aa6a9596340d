"""Where did the bytes break? A second look at what carried a wrong checksum.

    investigation.py  captures in, cases out
    related.py        the same batch seen elsewhere, and what its receiver said of it
    packets.py        the packets that carried these bytes, read again, with every copy of them
    packet_checksums.py  IPv4 and TCP checksums: right, wrong, or left to the network card
    reference_bytes.py   the right bytes, where a copy or another sighting shows them
    foreign_bytes.py     bytes that belong to another packet
    burst_narrowing.py   bursts that the CRC leaves open, narrowed by the TCP sum
    units.py             the fields of a unit, whether it can be what it claims to be: asked of its protocol
    attribution.py    who broke it, and which evidence says so
    cases.py          one Case a bad checksum: all of this together
    oddities.py       batches that contradict each other though their checksums are right
    report.py         as JSON objects, as text for an incident report, as files

Nothing of this runs while all is well: the decoders keep a `Suspect` only where a checksum is wrong.
"""

from dissectors.forensics.cases import Case
from dissectors.forensics.investigation import Investigation

__all__ = ["Case", "Investigation"]
