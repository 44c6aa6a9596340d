"""Blocks of a pcapng file, as bytes. `order` is "<" or ">".

Enhanced Packet Block
 at  size  field
  0     4  type, 6
  4     4  total length, a multiple of 4 (again at the end)
  8     4  interface
 12     8  time: high and low half, in units of the interface's if_tsresol
 20     4  captured length
 24     4  original length
 28     -  packet, padded to 4
  -     -  options: code u16, length u16, value padded to 4; 1 is a comment, 0 ends them

Source: IETF draft-ietf-opsawg-pcapng.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from dissectors.capture import pcapng

LONGEST = 4000  # bytes of one comment
MOST = 16  # comments of one packet
ORDER_MAGIC = 0x1A2B3C4D
_OPT_END, _OPT_COMMENT, _IF_TSRESOL, _IF_FCSLEN = 0, 1, 9, 13
_TLS_KEY_LOG = 0x544C534B


def section(order: str) -> bytes:
    """The head of a section, of unknown length."""
    return block(order, pcapng.SECTION, struct.pack(order + "IHHq", ORDER_MAGIC, 1, 0, -1))


def interface(order: str, link: int, snaplen: int, *, decimals: int, fcs: int | None = None) -> bytes:
    """An interface whose times count 10 to the minus `decimals` seconds. fcs: bits of a frame check sequence."""
    options = _option(order, _IF_TSRESOL, bytes([decimals]))
    if fcs is not None:
        options += _option(order, _IF_FCSLEN, bytes([fcs]))
    head = struct.pack(order + "HHI", link, 0, snaplen)
    return block(order, pcapng.INTERFACE, head + options + _option(order, _OPT_END, b""))


def packet(order: str, number: int, time: int, original: int, data: bytes, comments: Sequence[str] = ()) -> bytes:
    """A packet. number: of its interface, from 0; time: in units of that; original: its length on the wire."""
    head = struct.pack(order + "IIIII", number, time >> 32, time & 0xFFFFFFFF, len(data), original)
    return block(order, pcapng.ENHANCED, head + padded(data) + commented(order, comments))


def secrets(order: str, keylog: bytes) -> bytes:
    """TLS secrets in NSS key log format."""
    return block(order, pcapng.SECRETS, struct.pack(order + "II", _TLS_KEY_LOG, len(keylog)) + padded(keylog))


def block(order: str, kind: int, body: bytes) -> bytes:
    """A block of a type with this body, whose length is a multiple of 4."""
    length = struct.pack(order + "I", len(body) + 12)
    return b"".join((struct.pack(order + "I", kind), length, body, length))


def commented(order: str, comments: Sequence[str]) -> bytes:
    """The options that hold these comments, ended; nothing where there are none."""
    if not comments:
        return b""
    made = [_option(order, _OPT_COMMENT, _encoded(text)) for text in comments[:MOST]]
    return b"".join(made) + _option(order, _OPT_END, b"")


def padded(data: bytes) -> bytes:
    """Bytes with zeros up to a multiple of 4."""
    return data + bytes(-len(data) % 4)


def _encoded(text: str) -> bytes:
    data = text.encode("utf-8", "backslashreplace")
    return data if len(data) <= LONGEST else data[:LONGEST].decode("utf-8", "ignore").encode() + "…".encode()


def _option(order: str, code: int, value: bytes) -> bytes:
    return struct.pack(order + "HH", code, len(value)) + padded(value)
