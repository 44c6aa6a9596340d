"""Names of machines that captures tell: answers of DNS (UDP port 53) and name resolution blocks of pcapng.

Sources: RFC 1035 (messages), RFC 3596 (AAAA), draft-ietf-opsawg-pcapng section 4.5. What is read is bounded: the first
MOST_BYTES of the files, MOST_NAMES names, MOST_ANSWERS answers. A name is what
somebody on the network says; it is shown beside an address, never in its place.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

import numpy as np

from dissectors.capture.headers import OTHER
from dissectors.capture.layers import AT, END, KIND, PROTOCOL, SPORT, Layers
from dissectors.capture.raw import RawBlock
from dissectors.capture.reader import Reader
from dissectors.errors import InputError
from dissectors.limits import MIB, Limits

MOST_BYTES = 64 * MIB
MOST_NAMES = 10_000
MOST_ANSWERS = 4_096
_MOST_CANDIDATES = 4_096  # places in a block at which the port may stand
_MOST_RECORDS = 32  # of an answer
_MOST_LABELS = 32  # of a name
_MOST_ALIASES = 16  # from a name that was asked for to the one that has the address
_PORT, _UDP_PROTOCOL = 53, 17
_A, _CNAME, _AAAA = 1, 5, 28
_NRB_IPV4, _NRB_IPV6 = 1, 2
_NAME = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9_])?")


def host_names(paths: Sequence[str], limits: Limits) -> dict[str, str]:
    """Address -> name, as captures tell it first; what cannot be read tells nothing."""
    told = _Told()
    for path in paths:
        if told.is_enough:
            break
        with suppress(InputError):
            told.add_file(path, limits)
    return told.names


class _Told:
    """What captures have told so far."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}
        self._bytes = self._answers = 0

    @property
    def is_enough(self) -> bool:
        return self._bytes >= MOST_BYTES or self._answers >= MOST_ANSWERS or len(self.names) >= MOST_NAMES

    def add_file(self, path: str, limits: Limits) -> None:
        """Raises InputError for no capture."""
        reader = Reader(path, 0, limits)
        try:
            for block in reader.raw_blocks():
                self._bytes += len(block.buffer)
                for payload in _of_port(block):
                    self._answers += 1
                    with suppress(IndexError, struct.error, ValueError):
                        self._add(_message(payload))
                    if self.is_enough:
                        break
                if self.is_enough:
                    break
        finally:
            reader.close()
        for data, order in reader.notes.names:
            self._add(_records(data, order))

    def _add(self, told: Iterator[tuple[str, str]]) -> None:
        for address, name in told:
            if len(self.names) < MOST_NAMES and _NAME.fullmatch(name.rstrip(".")):
                self.names.setdefault(address, name.rstrip("."))


# --- DNS -------------------------------------------------------------------------------------------------------------


def _of_port(block: RawBlock) -> Iterator[bytes]:
    """What was sent from DNS's port in a block of packets. Only packets in which the port may stand are looked at."""
    places: list[int] = []
    port = _PORT.to_bytes(2, "big")
    at = block.buffer.find(port)
    while at >= 0 and len(places) < _MOST_CANDIDATES:
        places.append(at)
        at = block.buffer.find(port, at + 1)
    some = np.searchsorted(block.at, places, "right") - 1 if len(block) else np.empty(0, np.int64)
    some = some[np.diff(some, prepend=-1) > 0]  # in order; none before the first packet, each once
    layers = Layers(block.buffer, block.at[some], block.have[some], block.wire[some], block.link[some])
    layers.run()
    found = layers.columns
    answers = (found[KIND] == OTHER) & (found[PROTOCOL] == _UDP_PROTOCOL) & (found[SPORT] == _PORT)
    for start, end in zip(found[AT, answers].tolist(), found[END, answers].tolist(), strict=True):
        yield block.buffer[start:end]


def _message(data: bytes) -> Iterator[tuple[str, str]]:
    """(address, name that was asked for) of an answer. Raises IndexError or struct.error where it is cut."""
    _, flags, questions, answers = struct.unpack_from(">HHHH", data)
    if not flags & 0x8000 or flags & 0xF or questions != 1 or answers > _MOST_RECORDS:
        return
    asked, at = _domain(data, 12)
    at += 4
    asked_by = {asked: asked}  # an alias is known by the name that was asked for
    for _ in range(answers):
        name, at = _domain(data, at)
        kind, _, _, size = struct.unpack_from(">HHIH", data, at)
        at += 10
        value = data[at : at + size]
        if kind == _CNAME and name in asked_by and len(asked_by) <= _MOST_ALIASES:
            asked_by[_domain(data, at)[0]] = asked
        elif (kind, len(value)) in ((_A, 4), (_AAAA, 16)) and name in asked_by:
            yield _address(value), asked
        at += size


def _address(value: bytes) -> str:
    """Four or sixteen bytes as text."""
    from ipaddress import ip_address

    return str(ip_address(value))


def _domain(data: bytes, at: int) -> tuple[str, int]:
    """(a name, the index behind it). Raises IndexError or ValueError for what is none."""
    labels: list[str] = []
    after = None
    for _ in range(_MOST_LABELS):
        size = data[at]
        if size >= 0xC0:
            after = at + 2 if after is None else after
            at = (size & 0x3F) << 8 | data[at + 1]
            continue
        if not size:
            return ".".join(labels), at + 1 if after is None else after
        labels.append(data[at + 1 : at + 1 + size].decode("ascii"))
        at += 1 + size
    raise ValueError("a name without an end")


# --- pcapng ----------------------------------------------------------------------------------------------------------


def _records(data: bytes, order: str) -> Iterator[tuple[str, str]]:
    """(address, name) of a name resolution block."""
    at = 0
    while at + 4 <= len(data):
        kind, size = struct.unpack_from(f"{order}HH", data, at)
        value = data[at + 4 : at + 4 + size]
        wide = {_NRB_IPV4: 4, _NRB_IPV6: 16}.get(kind, 0)
        if not kind or len(value) < size:
            return
        if wide and size > wide:
            first = value[wide:].split(b"\0", 1)[0]
            yield _address(value[:wide]), first.decode("ascii", "replace")
        at += 4 + (size + 3) // 4 * 4
