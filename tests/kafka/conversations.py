"""Random conversations of Kafka: what one connection carries, mostly in turns, with now and then a flaw."""

import gzip
import random

from dissectors.kafka.decode import api_version
from tests.feeding import CLIENT, SERVER, Script
from tests.kafka.wire import (
    any_body,
    batch,
    fetch,
    fetched,
    message,
    produce,
    produced,
    record,
    request,
    response,
    wrapper,
)

TWO = batch([record(0, b"k", b"v"), record(1, None, None)])
NESTED = batch([record(0, b"k", TWO)])
PACKED = batch([record(0, b"k", b"v" * 200)], codec=1, stored=gzip.compress(record(0, b"k", b"v" * 200)))
STRANGE = batch([record(0, b"k", b"v")], base=-5, first=1 << 62, latest=-9, attributes=0x70, producer=(1 << 40, 3, -1))
HORIZON = batch([record(0, b"k", None)], attributes=0x40, first=1_800_000_000_000)
WRAPPED = wrapper(5, [message(i, b"v") for i in range(6)])
APIS = [(18, 3), (3, 9), (12, 4), (3, 1), (10, 3), (11, 5), (8, 8), (17, 1), (2, 7), (9, 8), (10, 4), (15, 5)]


def exchange(rng: random.Random, id_: int) -> tuple[bytes, bytes | None]:
    """A request, and its answer if it has one."""
    kind = rng.randrange(8)
    if kind == 0:
        unasked = produced(id_, [("t", 0, rng.choice((0, 6)), 7)])
        return produce(id_, {("t", rng.randrange(3)): TWO}, acks=0), rng.choice((None, None, unasked))
    if kind == 1:
        sets = {("t", 0): any_set(rng), ("u", 1): any_set(rng)}
        answers = [("t", 0, rng.choice((0, 0, 6)), 5), ("u", 1, 0, rng.choice((-1, 9)))]
        return produce(id_, sets), produced(id_, answers[: rng.choice((1, 2, 2))])
    if kind == 4:
        return regular_exchange(rng, id_)
    if kind == 2:
        return fetched_in_session(rng, id_)
    if kind == 3 and rng.random() < 0.1:
        return request(999, 1, id_, b"what"), response(3, 1, id_, b"\0\0\0")
    key, version = rng.choice(APIS)
    api = api_version(key, version).name
    seed = rng.randrange(4)
    sent, answered = any_body(f"{api}Request", version, seed), any_body(f"{api}Response", version, seed)
    client = rng.choice(("tester", "tester", "", None))
    return request(key, version, id_, sent, client), response(key, version, id_, answered)


def fetched_in_session(rng: random.Random, id_: int) -> tuple[bytes, bytes]:
    """A Fetch of a session that begins, goes on, changes or ends, and its answer."""
    session = rng.choice(((0, -1), (0, 0), (5, 1), (5, 2), (5, 1), (6, 1), (5, -1)))
    wanted = rng.choice(([], [("t", [0])], [("t", [0, 1]), ("u", [2])]))
    forgotten = rng.choice(([], [], [("t", [1])]))
    more = {"wait": rng.choice((0, 100, 500)), "offset": rng.choice((0, 0, 1, 5)), "isolation": rng.choice((0, 0, 1))}
    sent = fetch(id_, wanted, session, forgotten=forgotten, replica=rng.choice((-1, -1, -1, 2)), **more)
    cut = {("t", 0): TWO + TWO, ("u", 2): TWO[:-3]}
    sets = rng.choice(({}, {("t", 0): TWO}, cut, {("t", 1): b"broken"}, {("t", 0): HORIZON}, {("t", 0): WRAPPED}))
    aborted = rng.choice(((), (), ((1 << 40, 0),)))
    return sent, fetched(id_, sets, rng.choice((0, 5, 5, 6)), rng.choice((0, 0, 0, 0, 70)), aborted)


def any_set(rng: random.Random) -> bytes:
    """A record set, mostly of whole and right batches."""
    sets = (
        TWO,
        TWO,
        PACKED,
        idempotent(rng),
        idempotent(rng) + TWO,
        STRANGE,
        NESTED,
        TWO[:-1],
        TWO[:-1] + b"!",
        b"no batch",
    )
    return rng.choice((*sets, message(5, b"v"), message(5, b"v", magic=0), TWO + message(5, b"v")))


def regular_exchange(rng: random.Random, id_: int) -> tuple[bytes, bytes]:
    """A request that most clients send (Produce, Fetch, Heartbeat, OffsetCommit), and its answer."""
    sent = rng.choice((TWO, TWO + TWO, idempotent(rng), PACKED))
    kind = rng.randrange(6)
    if kind < 2:
        return produce(id_, {("t", 0): sent, ("u", 1): TWO}), produced(id_, [("t", 0, 0, id_), ("u", 1, 0, -1)])
    if kind == 2:
        return produce(id_, {("t", 0): sent}), produced(id_, [("t", 0, 0, id_)])
    if kind == 3:
        return fetch(id_, [("t", [0])], (0, -1), wait=500), fetched(id_, {("t", 0): sent + TWO}, 0, 0)
    if kind == 4:
        return request(12, 1, id_, b"\0\1g\0\0\0\1\0\1m"), response(12, 1, id_, b"\0\0\0\0\0\0")
    return commit(id_), response(8, 2, id_, b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0")


def idempotent(rng: random.Random) -> bytes:
    return batch([record(0, b"k", b"v")], producer=(7, 0, rng.randrange(3)))


def commit(id_: int) -> bytes:
    partition = b"\0\0\0\0" + bytes(8) + b"\xff\xff"
    body = b"\0\1g\0\0\0\1\0\1m" + b"\xff" * 8 + b"\0\0\0\1\0\1t\0\0\0\1" + partition
    return request(8, 2, id_, body)


def conversation(rng: random.Random) -> Script:
    """What one connection carries: mostly exchanges one after the other, now and then pipelined or unanswered."""
    script: Script = []
    owed: list[bytes] = []
    for id_ in range(1, rng.randrange(2, 20)):
        sent, answered = exchange(rng, id_)
        script.append((CLIENT, sent))
        if answered is not None and rng.random() > 0.02:
            owed.append(answered)
        while owed and rng.random() < 0.8:
            script.append((SERVER, owed.pop(0)))
    script += [(SERVER, answer) for answer in owed if rng.random() < 0.9]
    if rng.random() < 0.1:
        script.insert(rng.randrange(len(script)), (rng.choice((CLIENT, SERVER)), b"these bytes are no frame"))
    return script
