"""Random conversations of every era: what one connection carries, mostly in turns, with now and then a flaw."""

import random
import struct

from tests.feeding import CLIENT, SERVER, Script
from tests.iggy import wire

PLAIN_HEADERS = wire.header_plain("k", 2, b"v")
TYPED_HEADERS = wire.header_typed("k", 2, b"v")
ERAS = ("2023", "0.4", "0.5", "0.6", "0.7", "vsr-0.9", "vsr-0.10")
Exchange = tuple[int, bytes, bytes, int]  # code, body, the answer's body, its status


def flaw(rng: random.Random, often: float) -> bool:
    """Whether something goes wrong here."""
    return rng.random() < often


def some_name(rng: random.Random) -> bytes:
    odd = flaw(rng, 0.03)
    return rng.choice((wire.name("é"), wire.name("n" * 70)) if odd else (wire.STREAM, wire.number(3)))


def place(rng: random.Random) -> bytes:
    return some_name(rng) + some_name(rng)


def payloads(rng: random.Random) -> list[bytes]:
    return [bytes([65 + i]) * rng.randrange(9) for i in range(rng.choice((1, 1, 1, 3)) - flaw(rng, 0.1))]


def send(rng: random.Random, era: str) -> Exchange:
    """A send, which mostly goes well."""
    to = rng.choice((wire.partition(1), wire.partition(0), wire.partition(7), wire.BALANCED, b"\3\2ab"))
    status = 1009 if flaw(rng, 0.02) else 0
    head, some = place(rng) + to, payloads(rng)
    if era in ("2023", "0.4"):
        return 101, head + wire.send_a(some, rng.choice((b"", PLAIN_HEADERS))), b"", status
    head += struct.pack("<I", len(some) + flaw(rng, 0.02))
    head = struct.pack("<I", len(head)) + head
    if era.startswith("vsr"):
        confirmed = b"".join(struct.pack("<IIIQ", 1, 2, 5, rng.randrange(99)) for _ in range(rng.randrange(3)))
        answer = struct.pack("<I", len(confirmed) // 20) + confirmed
        wrote = (7, 1, 5) if flaw(rng, 0.05) else None
        return 101, head + wire.batch(some, headers=TYPED_HEADERS, producer=wrote), answer, status
    size = 64 if era == "0.7" else 56
    messages = [wire.message_b(p, size=size, headers=rng.choice((b"", PLAIN_HEADERS))) for p in some]
    ends = [sum(map(len, messages[: i + 1])) for i in range(len(messages))]
    if ends and flaw(rng, 0.03):
        ends[0] += 1
    index = b"".join(struct.pack("<IIQ", 0, end, 0) for end in ends)
    return 101, head + index + b"".join(messages), b"", status


def consumer(rng: random.Random, era: str) -> bytes:
    kind = bytes([9 if flaw(rng, 0.02) else rng.choice((1, 2))])
    return kind + (struct.pack("<I", 5) if era == "2023" else rng.choice((wire.number(5), wire.name("group"))))


def optional_partition(rng: random.Random, era: str) -> bytes:
    partition = struct.pack("<I", rng.randrange(3))
    return partition if era in ("2023", "0.4", "0.5") else rng.choice((b"\1" + partition, b"\0\0\0\0\0"))


def poll(rng: random.Random, era: str) -> Exchange:
    body = consumer(rng, era) + place(rng) + optional_partition(rng, era)
    body += bytes([rng.choice((1, 5, 5))]) + struct.pack("<QI?", rng.randrange(99), 10, True)
    some, first = payloads(rng), rng.randrange(99)
    count = len(some)
    if era in ("2023", "0.4"):
        messages = wire.poll_a(some, first)
    elif era.startswith("vsr"):
        messages = b"".join(wire.batch([p], base=first + i, part=2) for i, p in enumerate(some))
    else:
        kind = "crc32" if era == "0.5" else "xxh3"
        messages = wire.poll_b(some, size=64 if era == "0.7" else 56, kind=kind, first=first)
    if flaw(rng, 0.05):
        messages = messages[:-1] + b"?"
    more = struct.pack("<QQQ", 1, 2, 3) if era == "vsr-0.10" else b""
    answer = wire.polled(messages, count + flaw(rng, 0.02), more=more)
    return 100, body, rng.choice((answer, answer, answer, b"")), 2010 if flaw(rng, 0.03) else 0


def offsets(rng: random.Random, era: str) -> Exchange:
    body = consumer(rng, era) + place(rng) + optional_partition(rng, era)
    if rng.random() < 0.5:
        answer = struct.pack("<IQQ", 1, 8, rng.randrange(99)) + rng.choice((b"", b"", b"", b"?"))
        return 120, body, rng.choice((answer, b"")), 0
    return (
        121,
        body + struct.pack("<Q", 7) + (b"\1" if era.startswith("vsr") else b""),
        b"",
        40 if flaw(rng, 0.05) else 0,
    )


def administration(rng: random.Random, era: str) -> Exchange:
    """Commands that show names, that no layout reads, that nobody knows, or whose bodies are simple."""
    stream = struct.pack("<IQIQQ", 1, wire.T0, 0, 0, 0) + wire.str8("shop")
    kind = rng.randrange(9)
    if kind == 0:
        return 200, wire.STREAM, stream, 0
    if kind == 1 and not era.startswith("vsr"):
        return 202, wire.str8("shop") if era in ("0.6", "0.7") else struct.pack("<I", 1) + wire.str8("shop"), b"", 0
    if kind == 2:
        return 300, place(rng), b"", rng.choice((0, 2010))
    if kind == 3:
        return 604, place(rng) + (struct.pack("<I", 9) if era == "2023" else some_name(rng)), b"", 0
    if kind == 4:
        return rng.choice(
            ((9999, b"what", b"", 3), (100, b"no poll", b"", 0), (1, b"trailing", b"", 0), (39, b"", b"", 0))
        )
    if kind == 5:
        return 303, place(rng), b"", rng.choice((0, 0, 3))
    if kind == 6:
        return 12, b"", wire.str32("cluster") + struct.pack("<I", 1) + wire.NODE, 0
    return 1, b"", b"", 0


def naming(rng: random.Random, era: str) -> Exchange:
    """Commands whose answers show users, names and releases; some do not quite fit."""
    title, vsr = wire.str8(rng.choice(("shop", "orders", "é"))), era.startswith("vsr")
    numbered = b"" if vsr or era in ("0.6", "0.7") else struct.pack("<I", rng.randrange(4))
    stream = struct.pack("<IQIQQ", rng.randrange(4), wire.T0, 1, 0, 0) + title + (bytes(4) if vsr else b"")
    retention = {"2023": bytes(4), "0.4": bytes(22), "0.5": bytes(22)}.get(era, b"" if vsr else bytes(18))
    topic = struct.pack("<IQI", rng.randrange(4), wire.T0, 2) + bytes(4 if era == "2023" else 18) + bytes(16) + title
    group = struct.pack("<III", 3, 1, 1) + wire.str8("workers") + struct.pack("<III", 1, 1, 0)
    spoilt = b"?" if flaw(rng, 0.1) else b""
    silent = rng.random() < 0.4
    made = {
        38: (wire.login(user=rng.choice(("ann", "iggy")), version=None if era == "2023" else "0.6.0"), bytes(4)),
        200: (some_name(rng), stream + topic),
        201: (b"", stream * rng.randrange(3)),
        202: (numbered + title, stream),
        204: (some_name(rng) + title, b""),
        300: (place(rng), topic + bytes(40)),
        301: (some_name(rng), topic * rng.randrange(3)),
        302: (some_name(rng) + numbered + struct.pack("<I", 2) + retention + title, topic),
        602: (place(rng) + numbered + (b"" if era == "2023" else title), group),
        20: (b"", struct.pack("<IIB", 1, 1, 1) + wire.str32("10.0.0.2:4000") + bytes(4)),
    }
    code = rng.choice(tuple(made))
    body, answer = made[code]
    return code, body, b"" if silent else answer + spoilt, rng.choice((0,) * 9 + (1009,))


def exchange(rng: random.Random, era: str) -> Exchange:
    return rng.choice((send,) * 4 + (poll,) * 4 + (offsets, offsets, administration, naming, naming))(rng, era)


OPERATIONS = {101: 160, 121: 161}


def on_the_wire(rng: random.Random, era: str, number: int, parts: Exchange) -> tuple[bytes, bytes]:
    code, body, answer, status = parts
    if not era.startswith("vsr"):
        text = status and era == "0.4" and rng.random() < 0.3
        return wire.request(code, body), wire.refusal(status, "no") if text else wire.answer(
            b"" if status else answer, status
        )
    operation = OPERATIONS.get(code, 2)
    if operation == 161:
        failed = struct.pack("<III", 1, 0, status) if status else struct.pack("<I", 0)
        return wire.vsr_request(operation, body, id=number), wire.vsr_reply(operation, failed, id=number)
    reply = wire.vsr_reply(operation, b"" if status else answer, id=number, status=status)
    return wire.vsr_request(operation, body, id=number, code=0 if operation != 2 else code), reply


def login(era: str) -> Script:
    if era.startswith("vsr"):
        minor = 12 if era == "vsr-0.10" else 11
        return [
            (CLIENT, wire.vsr_request(1, wire.register(minor))),
            (SERVER, wire.vsr_reply(1, wire.registered(minor))),
        ]
    version = None if era == "2023" else "0.6.0"
    user = struct.pack("<I", 0 if era in ("0.6", "0.7") else 1)
    return [(CLIENT, wire.request(38, wire.login(version=version))), (SERVER, wire.answer(user))]


def conversation(rng: random.Random) -> Script:
    """What one connection carries: mostly in turns, now and then pipelined, unanswered, or with bytes that are none."""
    era = rng.choice(ERAS)
    script = login(era) if rng.random() < 0.8 else []
    patient = rng.choice((1.0, 1.0, 1.0, 0.6))
    owed: list[bytes] = []
    for number in range(2, rng.randrange(3, 40)):
        request, answer = on_the_wire(rng, era, number, exchange(rng, rng.choice(ERAS) if rng.random() < 0.02 else era))
        script.append((CLIENT, request))
        if rng.random() > 0.005:
            owed.append(answer)
        while owed and rng.random() < patient:
            script.append((SERVER, owed.pop(0)))
        if rng.random() < 0.003:
            script.append((SERVER, wire.answer(status=rng.choice((3, 8)))))
    script += [(SERVER, answer) for answer in owed if rng.random() < 0.95]
    if script and rng.random() < 0.05:
        script.insert(rng.randrange(len(script)), (rng.choice((CLIENT, SERVER)), b"these bytes are no frame"))
    return script
