"""Packets to byte streams: the only floor that knows sequence numbers."""
