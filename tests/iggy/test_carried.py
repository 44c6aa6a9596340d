"""A connection that is carried to another process goes on there as if nothing had happened."""

import pytest

from dissectors.iggy import PROTOCOL
from tests.feeding import CLIENT, feed, in_any_order, play
from tests.iggy import wire as w
from tests.iggy.eras import ERAS, PAYLOADS, Script, conversation

REFUSED = conversation(*[(w.vsr_request(1, w.register(12), id=0), w.answer(status=3))] * 2)
SCRIPTS = {**ERAS, "a client of VSR on an older server": REFUSED}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS)
def test_a_connection_goes_on_where_it_was_pickled(script: Script) -> None:
    assert in_any_order(feed(PROTOCOL, script, carried=True)[0]) == in_any_order(feed(PROTOCOL, script)[0])


def test_a_connection_that_was_carried_away_leaves_no_unfinished_rows() -> None:
    """Its dialect is not settled, so its rows wait."""
    script = [(CLIENT, w.request(1)), (1, w.OK), (CLIENT, w.request(101, w.send_b(PAYLOADS, size=56))), (1, w.OK)]
    conversation = play(PROTOCOL, script)
    sink = conversation.sink
    assert len(sink.exchanges) == 0
    conversation.release()
    slots = [sink.exchanges.open(), sink.batches.open()]
    assert max(slots) <= 2  # the first two, which were freed
    copy = play(PROTOCOL, script)
    copy.close()
    assert len(copy.sink.exchanges) == 2
