"""Random conversations of Pulsar: what one connection carries, mostly in turns, with now and then a flaw."""

import random
from typing import Any

import zstandard

from tests.feeding import CLIENT, SERVER, Script
from tests.pulsar import wire

LZ4_OF_EIGHT_ZEROS = bytes([0x13, 0, 1, 0, 0x30, 0, 0, 0])
PROPERTY: wire.Field = (4, [(1, "colour"), (2, "blue")])
ENCRYPTED: wire.Field = (13, [(1, "key"), (2, b"secret")])


def entry(rng: random.Random, number: int) -> bytes:
    """What a SEND or MESSAGE carries: mostly plain."""
    more: list[wire.Field] = [PROPERTY] * rng.randrange(3)
    payload, crc, magic, broker = b"payload" * rng.randrange(4), None, True, None
    kind = rng.randrange(24)
    if kind == 0:
        more += [(11, 2)]
        payload = wire.single(b"one") + wire.single(b"two", (1, [(1, "k"), (2, "v")]))
    elif kind == 1:
        more += [(26, "uuid"), (27, 2), (28, 14), (29, number % 2)]
    elif kind == 2:
        crc = 12345
    elif kind == 3:
        magic = False
    elif kind == 4:
        more += [ENCRYPTED, *([(8, 1), (9, 8)] if number % 2 else [])]
    elif kind == 5:
        more += [(20, 21)]
    elif kind == 6:
        more, payload = [*more, (8, 1), (9, 8)], LZ4_OF_EIGHT_ZEROS
    elif kind == 7:
        more += [(8, rng.choice((1, 2, 9))), (9, 99)]
    elif kind == 8:
        broker = wire.message([(1, 1_700_000_000_000), (2, number)])
    elif kind == 9:
        more += [(22, 1), (23, 2)]
    elif kind == 10:
        more += [(5, rng.choice(("", "elsewhere")))]
    elif kind == 11:
        more += [(31, 1), (11, 3)]
    elif kind == 12:
        more += [(2, 7), (60, 1)]
    elif kind == 14:
        more, payload = [*more, (8, 3), (9, 8)], zstandard.compress(bytes(8))
    elif kind == 15:
        more += [(50, number), (10, "not in the schema")]
    published = 1 << 62 if kind == 13 else 1_700_000_000_000
    meta = wire.metadata(number, *more, published=published)
    return wire.entry(meta, payload, crc=crc, magic=magic, broker=broker)


def exchange(rng: random.Random, id_: int) -> tuple[list[bytes], list[bytes]]:
    """What a client sends, and what the broker answers or pushes."""
    kind = rng.randrange(19)
    some = rng.choice((1, 1, 2, wire.ALL_ONES))
    if kind < 4:
        refused = rng.random() < 0.1
        ledger, number = rng.choice(((7, id_), (7, id_), (wire.ALL_ONES, wire.ALL_ONES)))
        answer = wire.refusal(id_, producer=some) if refused else wire.receipt(id_, ledger, number, producer=some)
        return [wire.send(id_, entry(rng, id_), producer=some)], [answer]
    if kind < 7:
        more: list[Any] = rng.choice(([], [(3, 2)], [(4, 5)], [(5, 1)]))
        return [], [wire.delivery(entry(rng, id_), 7, id_, *more, consumer=some)]
    if kind == 7:
        ids: list[wire.Field] = [(3, [(1, 7), (2, id_ - n)]) for n in range(rng.randrange(3))]
        partly: list[Any] = rng.choice(([], [(3, [(1, 7), (2, id_), (5, 3)])], [(4, 2)], [(6, 1)]))
        return [wire.simple(wire.ACK, (1, some), (2, rng.randrange(3)), *ids, *partly)], []
    if kind == 8:
        acknowledge = wire.simple(wire.ACK, (1, some), (2, 0), (3, [(1, 7), (2, id_)]), (8, id_))
        return [acknowledge], [wire.simple(wire.ACK_RESPONSE, (1, some), (4, id_), *rng.choice(([], [(5, 3)])))]
    if kind == 9:
        return [wire.flow(rng.choice((1, 1000)), some)], []
    if kind == 10:
        return rng.choice((([wire.simple(wire.PING)], [wire.simple(wire.PONG)]), ([], [wire.simple(wire.PING)])))
    if kind == 11:
        topic = f"persistent://a/b/t{rng.randrange(2)}" + rng.choice(("", "-partition-3"))
        ready: list[Any] = rng.choice(([], [], [(5, id_)], [(6, 0)]))
        answers = [wire.producing(id_, f"p-{id_}", *ready)] + (
            [wire.producing(id_, "late")] if ready == [(6, 0)] else []
        )
        if rng.random() < 0.1:
            answers = [wire.error(id_)]
        return [wire.producer(id_, topic, id_=some)], answers
    if kind == 12:
        compacted: list[Any] = rng.choice(([], [], [(11, 1)]))
        return [wire.subscribe(id_, "c", *compacted, id_=some)], [rng.choice((wire.success, wire.error))(id_)]
    if kind == 13:
        response: list[Any] = rng.choice(([(3, 1)], [(3, 1)], [(3, 0)], [(3, 2), (6, 5), (7, "no")]))
        return [wire.simple(wire.LOOKUP, (1, "t"), (2, id_))], [wire.simple(wire.LOOKUP_RESPONSE, (4, id_), *response)]
    if kind == 14:
        counted: list[Any] = rng.choice(([(1, 4), (3, 0)], [(1, 0)], [(3, 1), (4, 6)], [(1, (1 << 32) - 1)]))
        answer = wire.simple(wire.PARTITIONED_METADATA_RESPONSE, (2, id_), *counted)
        return [wire.simple(wire.PARTITIONED_METADATA, (1, "t"), (2, id_))], [answer]
    if kind == 15:
        code = rng.choice((wire.CLOSE_PRODUCER, wire.CLOSE_CONSUMER, wire.UNSUBSCRIBE))
        return [wire.simple(code, (1, some), (2, id_))], [wire.success(id_)]
    if kind == 16:
        return [], [wire.simple(rng.choice((wire.CLOSE_PRODUCER, wire.CLOSE_CONSUMER)), (1, some), (2, wire.ALL_ONES))]
    if kind == 17 and rng.random() < 0.3:
        odd = rng.choice((
            wire.simple(99, (1, id_)),
            wire.simple(wire.FLOW, (1, some), (2, 3), (99, 1)),
            wire.simple(wire.LOOKUP, (1, "t"), (2, id_), (2, id_ + 1)),
            wire.simple(wire.SUCCESS, (1, id_)),
            wire.carrying(wire.SEND, [(1, some), (2, id_)], b"\0\0"),
            wire.simple(wire.PING, (5, 1)),
            wire.u32(9) + wire.u32(5) + b"\x08\x06\x32\xff\x01",
        ))  # fmt: skip
        return [odd], [wire.simple(99, (1, id_))] if rng.random() < 0.5 else []
    return [wire.simple(29, (1, some), (2, id_))], [wire.simple(30, (1, [(1, 7), (2, id_)]), (2, id_))]


def conversation(rng: random.Random) -> Script:
    """What one connection carries: mostly answered in order, now and then late, twice or never."""
    script: Script = [(CLIENT, wire.connect()), (SERVER, wire.connected((3, rng.choice((60, 5_000_000)))))]
    if rng.random() < 0.2:
        script = [(CLIENT, wire.connect((11, "proxy"))), (SERVER, wire.connected()), (SERVER, wire.connected())]
    if rng.random() < 0.1:
        script = []
    owed: list[bytes] = []
    for _ in range(rng.randrange(2, 40)):
        requests, answers = exchange(rng, rng.randrange(1, 12))
        script += [(CLIENT, request) for request in requests]
        owed += [answer for answer in answers if rng.random() > 0.03]
        while owed and rng.random() < 0.8:
            script.append((SERVER, owed.pop(0 if rng.random() < 0.9 else -1)))
    script += [(SERVER, answer) for answer in owed if rng.random() < 0.9]
    if script and rng.random() < 0.1:
        script.insert(rng.randrange(len(script)), (rng.choice((CLIENT, SERVER)), b"these bytes are no frame"))
    return script
