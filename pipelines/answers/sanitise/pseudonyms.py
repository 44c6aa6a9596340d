"""What stands for a name, a key, an address: within one run the same for the same, and of the same length.

Pseudonyms come of a key that is made for the run and forgotten: nobody can tell a name from what stands for it by
trying names. They keep the shape that the protocols give a name: schemes, slashes, ports and `-partition-3`.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from copy import copy
from functools import lru_cache

_LETTERS = b"abcdefghijklmnopqrstuvwxyz0123456789"
_TRIES = 200  # other pseudonyms for a short name whose first is taken
_REMEMBERED = 1 << 20  # names; of further ones two short ones may get the same pseudonym

KEPT = frozenset(
    """
    __consumer_offsets __transaction_state __share_group_state __cluster_metadata @metadata __change_events
    __transaction_buffer_snapshot transaction_coordinator_assign transaction_coordinator_log public default pulsar
    system
    consumer connect share classic streams range roundrobin sticky cooperative-sticky uniform eager compatible sessioned
    localhost anonymous ANONYMOUS User Group user client-id ip metadata.version kraft.version group.version
    transaction.version share.version streams.version eligible.leader.replicas.version
    PLAIN SCRAM-SHA-256 SCRAM-SHA-512 GSSAPI OAUTHBEARER token basic tls none
    Stable Empty Dead PreparingRebalance CompletingRebalance Assigning Reconciling NotReady
    Ongoing PrepareCommit PrepareAbort CompleteCommit CompleteAbort PrepareEpochFence
    REAL_TOPIC REAL_SUBSCRIPTION ORIGIN_MESSAGE_ID RECONSUMETIMES DELAY_TIME EXCEPTION_CAUSE RETRY_TOPIC
    """.split()  # noqa: SIM905 - words, not code
)
"""Words that brokers and their own clients use: they name nobody, and answers depend on them."""

_SHAPE = re.compile(
    rb"(?:non-)?persistent://|[a-z+]+://|-partition-\d+(?![^/])|-(?:DLQ|RETRY)(?![^/])|:\d{1,5}(?![^/,])|[/,]"
)
_V4 = re.compile(rb"(?<![\d.])\d{1,3}(?:\.\d{1,3}){3}(?![\d.])")
_V4_MAPPED = 0xFFFF


class Pseudonyms:
    """Those of one run."""

    def __init__(self, key: bytes | None = None) -> None:
        """key: another than a fresh one makes the same pseudonyms again."""
        self._key = key or secrets.token_bytes(32)
        self._network = b""
        self._given: dict[bytes, bytes] = {}  # name -> pseudonym
        self._taken: set[bytes] = set()
        self.address = lru_cache(1 << 16)(self._address)

    def within(self, network: str) -> Pseudonyms:
        """Those of a network whose addresses are of other hosts elsewhere: others for addresses, the same for names."""
        made = copy(self)
        made._network = network.encode()
        made.address = lru_cache(1 << 16)(made._address)
        return made

    def name(self, raw: bytes) -> bytes:
        """What stands for a text that may be a topic, a URL, a host, a client id, or several names apart by commas."""
        out, at = [], 0
        for match in _SHAPE.finditer(raw):
            out += [self._part(raw[at : match.start()]), match[0]]
            at = match.end()
        return b"".join([*out, self._part(raw[at:])])

    def key(self, raw: bytes) -> bytes:
        """What stands for a key or other bytes of an application: nothing of their shape is kept."""
        return self._letters(b"key", raw, 0)

    def uuid(self, raw: bytes) -> bytes:
        """What stands for a 16-byte id; the ids that mean something by themselves, 0 and the like, stay."""
        return raw if len(raw) != 16 or not any(raw[:15]) else self._digest(b"uuid", raw)[:16]

    def noise(self, size: int) -> bytes:
        """Bytes that do not compress, the same for each size's beginning."""
        return hashlib.shake_128(self._key).digest(size)

    def _address(self, hi: int, lo: int) -> tuple[int, int]:
        """What stands for an address given in two halves. Unspecified, loopback and multicast addresses stay."""
        if hi == 0 and lo >> 32 == _V4_MAPPED:
            return hi, _V4_MAPPED << 32 | int.from_bytes(self._v4((lo & 0xFFFFFFFF).to_bytes(4, "big")), "big")
        if (hi == 0 and lo <= 1) or hi >> 56 == 0xFF:
            return hi, lo
        made = self._digest(b"v6" + self._network, hi.to_bytes(8, "big") + lo.to_bytes(8, "big"))
        return 0xFD << 56 | int.from_bytes(made[:7], "big"), int.from_bytes(made[8:16], "big")

    def _part(self, raw: bytes) -> bytes:
        """What stands for a name without shape."""
        if not raw or raw.decode("latin-1") in KEPT:
            return raw
        if _V4.fullmatch(raw) and all(int(number) < 256 for number in raw.split(b".")):
            made = self._v4(bytes(map(int, raw.split(b"."))))
            return b".".join(b"%0*d" % (len(old), new) for old, new in zip(raw.split(b"."), made, strict=True))
        given = self._given.get(raw)
        if given is None:
            for attempt in range(_TRIES):
                given = self._letters(b"name", raw, attempt)
                if given not in self._taken and given != raw:
                    break
            assert given is not None
            if len(self._given) < _REMEMBERED:
                self._given[raw] = given
                self._taken.add(given)
        return given

    def _v4(self, raw: bytes) -> bytes:
        """What stands for an IPv4 address: each number by another of as many digits, by what stands before it."""
        if raw[0] in (0, 127) or raw[0] >= 224:
            return raw
        out = bytearray()
        for at, number in enumerate(raw):
            low, high = (0, 9) if number < 10 else (10, 99) if number < 100 else (100, 255)
            if at == 0:
                low, high = max(low, 1), min(high, 223)
            values = [value for value in range(low, high + 1) if at or value != 127]
            order = sorted(
                values, key=lambda value: self._digest(b"v4" + self._network, raw[:at] + b"." + bytes([value]))
            )
            out.append(order[values.index(number)])
        return bytes(out)

    def _letters(self, kind: bytes, raw: bytes, attempt: int) -> bytes:
        made = hashlib.shake_128(self._digest(kind, raw + bytes([attempt]))).digest(len(raw))
        return bytes(_LETTERS[byte % len(_LETTERS)] for byte in made)

    def _digest(self, kind: bytes, raw: bytes) -> bytes:
        return hmac.digest(self._key, kind + b"\0" + raw, "sha256")
