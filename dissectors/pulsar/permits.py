"""Permits of consumers: how many messages a broker may still send to each.

A broker sends a consumer no more messages than it has permits for; FLOW grants them, each message takes one. A broker
sends whole batches, and may read several before it counts their messages, so it sends more than permits allow; each
message beyond them is counted against the next FLOW. What a consumer had before the capture began, or was granted in a
gap, is not known until it subscribes anew.
"""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.pulsar.commands import FLOW, MESSAGE, SUBSCRIBE
from dissectors.pulsar.decode import PulsarCommand
from dissectors.pulsar.fields import FLOW_MESSAGE_PERMITS
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame

COUNTED = (4, 9, 11, 12, 16)  # SUBSCRIBE, MESSAGE, FLOW, UNSUBSCRIBE, CLOSE_CONSUMER
"""Types of commands that change permits."""
_CONSUMERS = 10_000  # of one connection


@final
@carried
@compiled
class Permits:
    """The permits of the consumers of one connection.

    left: by number of the consumer; since: the delivery order from which they are counted
    gap_order: delivery order of the last gap of either direction
    """

    left: dict[int, int]
    since: dict[int, int]
    gap_order: cython.longlong

    def __init__(self) -> None:
        self.left = {}
        self.since = {}
        self.gap_order = -1

    @compiled
    def count(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Take a command of COUNTED; of a FLOW or MESSAGE, what is left afterwards is noted in `request`."""
        consumer: cython.longlong = request.endpoint_id
        if command.code == FLOW:
            request.permits = command.fields.number(FLOW_MESSAGE_PERMITS, 0)
        if consumer != ABSENT and command.code == SUBSCRIBE:
            if consumer in self.left or len(self.left) < _CONSUMERS:
                self.left[consumer] = 0
                self.since[consumer] = frame.order
        elif consumer != ABSENT:
            self._change(consumer, command.code, request)

    @compiled
    def _change(self, consumer: cython.longlong, code: cython.longlong, request: PulsarRequest) -> None:
        """Take a command of a consumer that has subscribed."""
        left: cython.longlong = self._left(consumer)
        if left != ABSENT:
            if code == FLOW:
                left += request.permits
            elif code == MESSAGE and request.records != ABSENT:
                left -= max(request.records, 1)  # each chunk of a message takes a permit
            else:  # it ends, or how many messages came was not captured
                left = ABSENT
            if left == ABSENT:
                self._forget(consumer)
            else:
                self.left[consumer] = left
                request.permits_left = left

    @compiled
    def _left(self, consumer: cython.longlong) -> cython.longlong:
        """What is left to a consumer; ABSENT if bytes are missing since it is counted, or before."""
        left = self.left.get(consumer)
        if left is None:
            return ABSENT
        if self.since[consumer] < self.gap_order:
            self._forget(consumer)
            return ABSENT
        number: cython.longlong = left
        return number

    @compiled
    def _forget(self, consumer: cython.longlong) -> None:
        del self.left[consumer], self.since[consumer]
