"""Random conversations of every protocol: their rows depend neither on how bytes arrive nor on who reads them."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.rows.sink import Sink
from dissectors.session.conversation import Protocol
from dissectors.session.protocols import protocols
from tests.feeding import CLIENT, SERVER, Script, feed, feed_every_way, in_any_order
from tests.iggy import conversations as iggy
from tests.kafka import conversations as kafka
from tests.pulsar import conversations as pulsar

CONVERSATIONS: dict[str, Callable[[random.Random], Script]] = {
    "kafka": kafka.conversation, "pulsar": pulsar.conversation, "iggy": iggy.conversation,
}  # fmt: skip
JUNK = (b"x", b"these bytes are no frame", bytes(30), b"\x08\0\0\0e\0\0\0")
Captured = list[tuple[int, Any]]  # direction, bytes or how many were lost


def begun_before(rng: random.Random, script: Script) -> Captured:
    """A script from some step on, and of that step from some byte on."""
    (direction, data), *steps = script[rng.randrange(len(script) or 1) :] or [(CLIENT, b"")]
    return [(direction, data[rng.choice((0, rng.randrange(len(data) + 1))) :]), *steps]


def cut_off(rng: random.Random, script: Script) -> Captured:
    """The first steps of a script, of the last of them only the first bytes."""
    *steps, (direction, data) = script[: rng.randrange(len(script) or 1) + 1] or [(CLIENT, b"")]
    return [*steps, (direction, data[: rng.randrange(len(data) + 1)])]


def pipelined(rng: random.Random, script: Script) -> Captured:
    """A script in which a client waits for no answer any more after some steps."""
    at = rng.randrange(len(script) or 1)
    return [*script[:at], *sorted(script[at:], key=lambda step: step[0])]


def with_holes(rng: random.Random, script: Script) -> Captured:
    """A script of which the capture lacks some writes, or the beginnings, middles or ends of some."""
    often, kept = rng.choice((0.05, 0.3)), Captured()
    for direction, data in script:
        start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2)) if rng.random() < often else (0, 0)
        start, end = rng.choice((0, start)), rng.choice((end, len(data) if end else end))
        kept += [(direction, part) for part in (data[:start], end - start, data[end:]) if part]
    return kept


def without_some_writes(rng: random.Random, script: Script) -> Captured:
    """A script of which the capture lacks some writes, or the ends of some."""
    kept = Captured()
    for direction, data in script:
        lost = rng.choice((len(data), rng.randrange(1, len(data)))) if len(data) > 1 and rng.random() < 0.05 else 0
        kept += [(direction, part) for part in (data[: len(data) - lost], lost) if part]
    return kept


def with_junk(rng: random.Random, script: Script) -> Captured:
    """A script into which bytes that are no frame were sent at some places."""
    mixed = list(script)
    for _ in range(rng.choice((1, 1, 2, 3))):
        mixed.insert(rng.randrange(len(mixed) + 1), (rng.choice((CLIENT, SERVER)), rng.choice(JUNK)))
    return mixed


def damaged(rng: random.Random, script: Script) -> Captured:
    """A script in which some bytes are others."""
    out = [(direction, bytearray(data)) for direction, data in script]
    for _, data in rng.choices(out, k=rng.choice((1, 1, 2, 4))) if out else ():
        data[rng.randrange(len(data))] = rng.choice((0, 1, 127, 128, 255, rng.randrange(256)))
    return [(direction, bytes(data)) for direction, data in out]


HEARD: dict[str, Callable[[random.Random, Script], Captured]] = {
    "all": lambda rng, script: list(script),
    "the client": lambda rng, script: [step for step in script if step[0] == CLIENT],
    "the server": lambda rng, script: [step for step in script if step[0] == SERVER],
    **{
        function.__name__.replace("_", " "): function
        for function in (begun_before, cut_off, pipelined, with_holes, without_some_writes, with_junk, damaged)
    },
    "with holes and cut off": lambda rng, script: with_holes(rng, cut_off(rng, script)),
}
ONCE = [  # protocol, heard, begun before the capture, seed
    # VSR frames behind junk, read as legacy: the capture ends in an odd answer
    ("iggy", "all", False, 80944273),
    # an error's header whose text rules it out: nothing may be paid for it
    ("iggy", "with junk", False, 20000474),
    # an answer between two requests of which the first is none
    ("iggy", "with junk", False, 20000990),
    # zeros in a payload that look like the empty answers which are awaited
    ("iggy", "with junk", False, 1111549),
    # a place that waited for more bytes than rule it out
    ("iggy", "with junk", False, 5000077),
    # bytes that show to be no frame only with the next segment
    ("iggy", "with junk", False, 5000752),
    # an answer to GET_CLUSTER_METADATA without nodes
    ("iggy", "without some writes", False, 4574),
    # a request that swallows others, behind a search that waited
    ("kafka", "damaged", True, 1253),
    # a first answer that answers nothing, before one that does
    ("kafka", "damaged", True, 35),
    # a record set that goes on behind the end of its frame
    ("kafka", "damaged", True, 107),
]


def bad(sink: Sink) -> int:
    return sum(batch.verdict == "bad" for batch in sink.batches)


def check(protocol: Protocol, heard: str, seed: int, *, midstream: bool = False, snaplen: bool = False) -> None:
    rng = random.Random(seed)
    said = CONVERSATIONS[protocol.name](rng)
    captured = HEARD[heard](rng, said)
    kept = [rng.choice((1 << 20, rng.randrange(70), rng.randrange(400))) if snaplen else 1 << 20 for _ in captured]
    how: dict[str, Any] = {"midstream": midstream, "keep": lambda step, size: min(size, kept[step])}
    sink = feed_every_way(protocol, captured, **how)
    assert in_any_order(feed(protocol, captured, carried=True, **how)[0]) == in_any_order(sink)
    if heard not in ("with junk", "damaged"):  # what is not there makes no checksum wrong
        assert bad(sink) <= bad(feed(protocol, said)[0])


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("heard", HEARD)
@settings(max_examples=15)
@given(seed=st.integers(0, 1 << 32), midstream=st.booleans(), snaplen=st.booleans())
def test_rows_do_not_depend_on_how_the_bytes_of_a_conversation_arrive(
    protocol: Protocol, heard: str, seed: int, midstream: bool, snaplen: bool
) -> None:
    check(protocol, heard, seed, midstream=midstream, snaplen=snaplen)


@pytest.mark.parametrize(("protocol", "heard", "midstream", "seed"), ONCE)
def test_conversations_whose_rows_once_differed_do_no_more(
    protocol: str, heard: str, midstream: bool, seed: int
) -> None:
    check(next(each for each in protocols() if each.name == protocol), heard, seed, midstream=midstream)
