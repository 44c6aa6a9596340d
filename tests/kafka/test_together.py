"""Many connections at once give the rows that each alone gives."""

import gzip
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.kafka import PROTOCOL
from dissectors.records import DEFAULT_TABLES, TABLES
from dissectors.tcp.chunk import CLIENT, SERVER
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
from tests.many import Script, TogetherAsAlone, assert_together_as_alone

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
        return produce(id_, {("t", rng.randrange(3)): TWO}, acks=0), None
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
    from dissectors.kafka.decode import api_version

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
    """As most clients say them: batches sent and received, heartbeats, commits."""
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


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32))
def test_regular_connections_give_the_same_rows(seed: int) -> None:
    rng = random.Random(seed)
    tables = tuple(table for table in TABLES if table != "messages")
    scripts: list[Script] = []
    for _ in range(rng.randrange(1, 9)):
        pairs = [regular_exchange(rng, id_) for id_ in range(1, 40)]
        scripts.append([part for request, answer in pairs for part in ((CLIENT, request), (SERVER, answer))])
    scripts += [pipelined(rng, [sent(rng, id_, rng.choice((0, 1, -1))) for id_ in range(40)]) for _ in range(3)]
    assert_together_as_alone(PROTOCOL, scripts, tables, seed, often=0)


@settings(max_examples=40)
@given(seed=st.integers(0, 1 << 32), many=st.integers(1, 4))
def test_a_produce_without_an_answer_gives_the_same_rows_whatever_the_broker_does(seed: int, many: int) -> None:
    """It answers all the same, skips ids, or closes the connection in the middle of a request."""
    rng = random.Random(seed)
    tables = tuple(TABLES) if rng.random() < 0.2 else DEFAULT_TABLES
    scripts = [mishandled(rng) for _ in range(many)]
    assert_together_as_alone(PROTOCOL, scripts, tables, seed)


def sent(rng: random.Random, id_: int, acks: int) -> tuple[bytes, bytes | None]:
    """A Produce of whole and right batches, and its answer unless none is wanted."""
    some = rng.choice((TWO, PACKED, TWO + TWO, idempotent(rng)))
    sets = {("t", 0): some, ("u", rng.randrange(3)): TWO}
    answer = produced(id_, [(*key, 0, id_) for key in sets])
    return produce(id_, sets, acks, client=rng.choice(("tester", ""))), answer if acks else None


def pipelined(rng: random.Random, exchanges: list[tuple[bytes, bytes | None]]) -> Script:
    """Exchanges whose answers come in order, and late."""
    script: Script = []
    owed: list[bytes] = []
    for request_, answer in exchanges:
        script.append((CLIENT, request_))
        owed += [answer] if answer else []
        while owed and rng.random() < 0.5:
            script.append((SERVER, owed.pop(0)))
    return script + [(SERVER, answer) for answer in owed]


def mishandled(rng: random.Random) -> Script:
    exchanges = [sent(rng, id_, rng.choice((0, 0, 1, -1))) for id_ in range(30)]
    for id_ in rng.sample(range(30), rng.choice((0, 1, 3))):
        without, answer = exchanges[id_]
        exchanges[id_] = without, rng.choice((None, produced(id_, [("t", 0, rng.choice((0, 6)), 7)]), answer))
    script = pipelined(rng, exchanges)
    if rng.random() < 0.5:
        script = script[: rng.randrange(1, len(script))]
        direction, data = script[-1]
        script[-1] = direction, data[: rng.randrange(1, len(data) + 1)]
    return script


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


class TestTogetherAsAlone(TogetherAsAlone):
    protocol = PROTOCOL
    conversation = staticmethod(conversation)
    apis = ("Produce", "Fetch", "Metadata", "OffsetCommit", "ApiVersions", "JoinGroup")
    differed = ((5536516, 4),)  # a request whose end was forgotten when the bytes behind it were joined


@pytest.mark.parametrize("midstream", [False, True])
@pytest.mark.parametrize("direction", [CLIENT, SERVER], ids=["requests", "answers"])
@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 32), many=st.integers(1, 4))
def test_connections_of_which_one_direction_was_captured_give_the_same_rows(
    midstream: bool, direction: int, seed: int, many: int
) -> None:
    rng = random.Random(seed)
    tables = tuple(TABLES) if rng.random() < 0.2 else DEFAULT_TABLES
    scripts = [[part for part in long_conversation(rng) if part[0] == direction] for _ in range(many)]
    assert_together_as_alone(PROTOCOL, scripts, tables, seed, often=0.1, midstream=midstream)


def long_conversation(rng: random.Random) -> Script:
    """More answers than wait for an explanation."""
    exchanges = [exchange(rng, id_) for id_ in range(1, 90)]
    parts = [part for sent, answer in exchanges for part in ((CLIENT, sent), (SERVER, answer))]
    return [(direction, data) for direction, data in parts if data is not None]


def test_a_session_that_changes_gives_the_same_rows() -> None:
    """Its session begins, one partition leaves and comes back, and each step ends with a fetch that waits."""
    script: Script = [(CLIENT, fetch(1, [("t", [0, 1])], (0, 0))), (SERVER, fetched(1, {}, 5))]
    for id_ in range(2, 60):
        changed = ([], [("t", [0])], [])[id_ % 3]
        forgotten = ([("t", [0])], [], [])[id_ % 3]
        sets = {("t", 1): TWO} if id_ % 2 else {}
        sent = fetch(id_, changed, (5, id_ - 1), forgotten=forgotten, offset=1, isolation=1)
        script += [(CLIENT, sent), (SERVER, fetched(id_, sets, 5))]
    assert_together_as_alone(PROTOCOL, [script], DEFAULT_TABLES, 3, often=0)


@pytest.mark.parametrize("answered", [0, 5, 300])
@settings(max_examples=10)
@given(seed=st.integers(0, 1 << 32))
def test_fetches_wait_together_and_give_the_same_rows_answered_or_not(answered: int, seed: int) -> None:
    rng = random.Random(seed)
    requests, answers = zip(*(fetched_in_session(rng, id_) for id_ in range(1, 400)), strict=True)
    script = [(CLIENT, sent) for sent in requests] + [(SERVER, answer) for answer in answers[:answered]]
    others = [(CLIENT, commit(1000)), (CLIENT, fetch(1001, [("t", [0])], (5, 3)))]
    assert_together_as_alone(PROTOCOL, [script + others], DEFAULT_TABLES, seed, often=0.005)
