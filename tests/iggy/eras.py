"""One conversation for each wire era: login, a send, a poll, a ping; the same application, other bytes."""

import struct
from typing import Any

from tests.feeding import CLIENT, SERVER
from tests.iggy import wire as w

PAYLOADS = [b"first", b"second message", b""]
RESULT = struct.pack("<I", 0)

Script = list[tuple[int, Any]]


def conversation(*pairs: tuple[bytes, bytes]) -> Script:
    """Request and answer, in lock-step."""
    return [step for ask, reply in pairs for step in ((CLIENT, ask), (SERVER, reply))]


def legacy(login: bytes, root: int, send: bytes, poll: bytes, polled: bytes, code: int = 38) -> Script:
    return conversation(
        (w.request(code, login), w.answer(struct.pack("<I", root)) if code == 38 else w.OK),
        (w.request(101, send), w.OK),
        (w.request(100, poll), w.answer(polled)),
        (w.request(1), w.OK),
    )


def send_a() -> bytes:
    return w.STREAM + w.TOPIC + w.partition(1) + w.send_a(PAYLOADS)


def vsr(minor: int) -> Script:
    more = bytes(24) if minor >= 12 else b""
    routed = 7 if minor >= 12 else 0
    confirmed = struct.pack("<IIIIQ", 1, 0, 0, 0, 40)
    polled = w.polled(w.batch(PAYLOADS, part=0, base=40), len(PAYLOADS), part=0, more=more)
    return conversation(
        (w.vsr_request(1, w.register(minor), id=0), w.vsr_reply(1, RESULT + w.registered(), id=0)),
        (w.vsr_request(160, w.send_vsr(PAYLOADS), id=1), w.vsr_reply(160, confirmed, id=1)),
        (w.vsr_request(2, w.poll_06(), id=2, code=100, routed=routed), w.vsr_reply(2, polled, id=2)),
        (w.vsr_request(2, b"", id=3, code=1), w.vsr_reply(2, b"", id=3)),
    )


def _b(size: int, kind: str) -> bytes:
    return w.polled(w.poll_b(PAYLOADS, size=size, kind=kind), len(PAYLOADS))


_A = w.polled(w.poll_a(PAYLOADS), len(PAYLOADS))
_OLD, _NEW = w.login(), w.login(version="0.0.1")

ERAS: dict[str, Script] = {
    "iggy-2023": legacy(_OLD, 1, send_a(), w.poll_2023(), _A),
    "iggy-2023 of 0.0.4": legacy(_OLD, 1, send_a(), w.poll_2023(), _A, code=32),
    "iggy-0.4": legacy(_NEW, 1, send_a(), w.poll_04(), _A),
    "iggy-0.5": legacy(_NEW, 1, w.send_b(PAYLOADS, size=56), w.poll_04(), _b(56, "crc32")),
    "iggy-0.6": legacy(_NEW, 0, w.send_b(PAYLOADS, size=56), w.poll_06(), _b(56, "xxh3")),
    "iggy-0.7": legacy(_NEW, 0, w.send_b(PAYLOADS, size=64), w.poll_06(), _b(64, "xxh3")),
    "iggy-vsr-0.9": vsr(11),
    "iggy-vsr-0.10": vsr(12),
}


def dialect(era: str) -> str:
    return era.split()[0]


def sent(script: Script) -> list[int]:
    """Indexes of the steps that come from the client."""
    return [i for i, (direction, _) in enumerate(script) if direction == CLIENT]
