"""Random conversations of every protocol: rows do not depend on how bytes arrive, and every byte is counted."""

import random
from collections.abc import Callable

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dissectors.session.conversation import Protocol
from dissectors.session.protocols import protocols
from tests.feeding import CLIENT, SERVER, Script, feed_every_way
from tests.iggy import conversations as iggy
from tests.kafka import conversations as kafka
from tests.pulsar import conversations as pulsar

CONVERSATIONS: dict[str, Callable[[random.Random], Script]] = {
    "kafka": kafka.conversation, "pulsar": pulsar.conversation, "iggy": iggy.conversation,
}  # fmt: skip
HEARD: dict[str, Callable[[random.Random, Script], Script]] = {
    "all": lambda rng, script: script,
    "what came before the capture ended": lambda rng, script: cut_off(rng, script),
    "what came after the capture began": lambda rng, script: script[rng.randrange(len(script) or 1) :],
    "the client": lambda rng, script: [step for step in script if step[0] == CLIENT],
    "the server": lambda rng, script: [step for step in script if step[0] == SERVER],
}


def cut_off(rng: random.Random, script: Script) -> Script:
    """The first steps of a script, of the last of them only the first bytes."""
    *steps, (direction, data) = script[: rng.randrange(len(script) or 1) + 1] or [(CLIENT, b"")]
    return [*steps, (direction, data[: rng.randrange(len(data) + 1)])]


@pytest.mark.parametrize("protocol", protocols(), ids=lambda protocol: protocol.name)
@pytest.mark.parametrize("heard", HEARD)
@settings(max_examples=30)
@given(seed=st.integers(0, 1 << 32), midstream=st.booleans())
@example(seed=80944273, midstream=False)  # Iggy's VSR frames behind junk: an answer that no layout reads ends it
def test_rows_do_not_depend_on_how_the_bytes_of_a_conversation_arrive(
    protocol: Protocol, heard: str, seed: int, midstream: bool
) -> None:
    rng = random.Random(seed)
    script = HEARD[heard](rng, CONVERSATIONS[protocol.name](rng))
    feed_every_way(protocol, script, midstream=midstream or heard == "what came after the capture began")
