"""Random conversations of every era, whole and with holes: their rows do not depend on how their bytes arrive."""

from __future__ import annotations

import random

from hypothesis import given, settings
from hypothesis import strategies as st

from dissectors.iggy import PROTOCOL
from tests.feeding import feed_every_way
from tests.iggy.conversations import conversation, with_holes

SEEDS = st.integers(0, 1 << 32)


@settings(max_examples=30)
@given(SEEDS)
def test_rows_do_not_depend_on_how_the_bytes_of_a_conversation_arrive(seed: int) -> None:
    feed_every_way(PROTOCOL, conversation(random.Random(seed)))


@settings(max_examples=30)
@given(SEEDS)
def test_nor_do_those_of_a_conversation_with_holes(seed: int) -> None:
    rng = random.Random(seed)
    feed_every_way(PROTOCOL, with_holes(rng, conversation(rng)))
