"""A connection that is carried to another process goes on there as if nothing had happened."""

import itertools
import pickle
from typing import Any

import pytest

from dissectors.iggy import PROTOCOL
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.rows.sink import Sink
from dissectors.tcp.chunk import Chunk
from tests.feeding import CLIENT, conn, feed, in_any_order
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, Script, conversation

REFUSED = conversation(*[(w.vsr_request(1, w.register(12), id=0), w.answer(status=3))] * 2)
SCRIPTS = {**ERAS, "a client of VSR on an older server": REFUSED}
START = 1_700_000_000_000_000_000


def begun(script: Script, steps: int) -> tuple[Any, Sink]:
    """A conversation that has seen some steps of a script, as `feed` times them."""
    options = Options(tables=tuple(TABLES), full=True, payloads=True)
    sink = Sink(options.tables, full=True, payloads=True)
    sink.files = ["test.pcap"]
    conversation = PROTOCOL.conversation(conn(PROTOCOL.name), sink, options, midstream=False)
    go_on(conversation, script, 0, steps)
    return conversation, sink


def go_on(conversation: Any, script: Script, first: int, last: int) -> None:
    offsets = [sum(len(data) for direction, data in script[:first] if direction == side) for side in (0, 1)]
    order = itertools.count(first + 1)
    for step in range(first, last):
        direction, data = script[step]
        segment = [offsets[direction]], [next(order)], [step + 1], [START + step * 1_000_000]
        conversation.receive(direction, Chunk.of(offsets[direction], data, *segment))
        offsets[direction] += len(data)
        conversation.advance()


@pytest.mark.parametrize("era", SCRIPTS)
def test_a_connection_goes_on_where_it_was_pickled(era: str) -> None:
    script = SCRIPTS[era]
    want = in_any_order(feed(PROTOCOL, script)[0])
    for step in range(len(script)):
        copy = pickle.loads(pickle.dumps(begun(script, step)[0]))
        go_on(copy, script, step, len(script))
        copy.close(START + (len(script) - 1) * 1_000_000)
        assert in_any_order(copy.sink) == want


def test_a_connection_that_was_carried_away_leaves_no_unfinished_rows() -> None:
    """Its dialect is not settled, so its rows wait."""
    script = [(CLIENT, w.request(1)), (1, w.OK), (CLIENT, w.request(101, w.send_b(PAYLOADS, size=56))), (1, w.OK)]
    conversation, sink = begun(script, len(script))
    assert len(sink.exchanges) == 0
    conversation.release()
    slots = [sink.exchanges.open(), sink.batches.open()]
    assert max(slots) <= 2  # the first two, which were freed
    copy, _ = begun(script, len(script))
    copy.close()
    assert len(copy.sink.exchanges) == 2
