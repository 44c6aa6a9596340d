"""Packets to byte streams: the only floor that knows sequence numbers."""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
