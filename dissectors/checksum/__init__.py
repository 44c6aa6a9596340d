"""Checksums: compute, and say where bytes broke."""

from dissectors.checksum.verify import CRC32, CRC32C, NONE, XXH3, compute, function, shown

__all__ = ["CRC32", "CRC32C", "NONE", "XXH3", "compute", "function", "shown"]
