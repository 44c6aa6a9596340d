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
from dissectors.pulsar.names import Endpoint
from dissectors.pulsar.pending import PulsarRequest
from dissectors.rows.layout import ABSENT
from dissectors.session.frame import Frame

COUNTED = (4, 9, 11, 12, 16)  # SUBSCRIBE, MESSAGE, FLOW, UNSUBSCRIBE, CLOSE_CONSUMER
"""Types of commands that change permits."""


@final
@carried
@compiled
class Permits:
    """Counts the permits of the consumers of one connection: what is left to each stands in its Endpoint.

    gap_order: delivery order of the last gap of either direction
    """

    gap_order: cython.longlong

    def __init__(self) -> None:
        self.gap_order = -1

    @compiled
    def count(self, frame: Frame, command: PulsarCommand, request: PulsarRequest) -> None:
        """Take a command of COUNTED; of a FLOW or MESSAGE, what is left afterwards is noted in `request`."""
        consumer: Endpoint | None = request.endpoint
        if command.code == FLOW:
            request.permits = command.fields.number(FLOW_MESSAGE_PERMITS, 0)
        if consumer is None:
            return
        if command.code == SUBSCRIBE:
            consumer.permits, consumer.permits_since = 0, frame.order
        elif consumer.permits != ABSENT:
            self._change(consumer, command.code, request)

    @compiled
    def _change(self, consumer: Endpoint, code: cython.longlong, request: PulsarRequest) -> None:
        """Take a command of a consumer whose permits were known before it."""
        if consumer.permits_since < self.gap_order:
            consumer.permits = ABSENT  # bytes are missing since it is counted
        elif code == FLOW:
            consumer.permits += request.permits
        elif code == MESSAGE and request.records != ABSENT:
            consumer.permits -= max(request.records, 1)  # each chunk of a message takes a permit
        else:  # it ends, or how many messages came was not captured
            consumer.permits = ABSENT
        request.permits_left = consumer.permits
