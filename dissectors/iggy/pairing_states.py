"""The states of pairing on one connection, and every way from one to another: the table that match.py follows.

Three questions are open on a connection at any time. Each has an enum of the answers known so far, and the events that
change them; no event belongs to two of them.

Order: how does the client send?

    LOCK_STEP                it waits for each answer, until an answer or a request proves the contrary
    PIPELINED                it has had several requests in flight
    MULTIPLEXED              the dialect (VSR 0.10) allows answers in any order; several in flight were not seen yet
    MULTIPLEXED_PIPELINED    both

Certainty: which request does the next answer belong to?

    CERTAIN             nothing is missing that has not been accounted for: to the oldest request that fits
    REFUSED_BODY        the server refused a SEND_MESSAGES without reading its body: it may answer the body's bytes
    ALIGNING            bytes of a pipeline are missing: answers are held until only one assignment fits (align.py)
    SILENT              ALIGNING, and the connection was quiet since: what was in flight then may have been answered
    DOUBTFUL            the requests in flight and the answers cannot be brought together: wait for silence
    DOUBTFUL_BODY       DOUBTFUL, and the server may still answer the bytes of a refused body

Origin: may an answer belong to a request before the capture?

    BEFORE_CAPTURE      the capture began in the middle of the connection, and no answer has been paired yet
    KNOWN               no

The numbers beside the states (bytes of a refused body, entries before a silence, answers held) are data of match.py.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import TypeVar, cast


class Order(Enum):
    """How the client sends."""

    LOCK_STEP = auto()
    PIPELINED = auto()
    MULTIPLEXED = auto()
    MULTIPLEXED_PIPELINED = auto()


class Certainty(Enum):
    """How surely the next answer's request is known."""

    CERTAIN = auto()
    REFUSED_BODY = auto()
    ALIGNING = auto()
    SILENT = auto()
    DOUBTFUL = auto()
    DOUBTFUL_BODY = auto()


class Origin(Enum):
    """Whether requests from before the capture may be answered."""

    BEFORE_CAPTURE = auto()
    KNOWN = auto()


State = Order | Certainty | Origin
_S = TypeVar("_S", bound=State)


class PairingEvent(Enum):
    """An event that changes a state."""

    # of Order
    SEVERAL_IN_FLIGHT = auto()  # a request was sent before the answer to the one before it
    DIALECT_MULTIPLEXES = auto()  # the dialect is known, and answers in any order
    DIALECT_ORDERS = auto()  # the dialect is in question again
    # of Certainty
    BODY_REFUSED = auto()  # a SEND_MESSAGES was answered with an error
    BODY_PASSED = auto()  # all of the refused body has been answered, or an answer to a later request came
    HOLE_IN_PIPELINE = auto()  # several requests may be the one that is answered
    SILENCE = auto()  # a request after a pause, longer than any server takes to answer
    ANSWERS_LOST = auto()  # bytes of answers are missing after the silence: it proves nothing
    ALIGNED = auto()  # the answers held are paired, or given up
    CONTRADICTION = auto()  # no request fits the answer, or too many would have to be compared
    # of Origin
    FIRST_MATCH = auto()  # an answer to a request of this capture


TRANSITIONS: dict[tuple[State, PairingEvent], State] = {
    (Order.LOCK_STEP, PairingEvent.SEVERAL_IN_FLIGHT): Order.PIPELINED,
    (Order.LOCK_STEP, PairingEvent.DIALECT_MULTIPLEXES): Order.MULTIPLEXED,
    (Order.PIPELINED, PairingEvent.DIALECT_MULTIPLEXES): Order.MULTIPLEXED_PIPELINED,
    (Order.MULTIPLEXED, PairingEvent.SEVERAL_IN_FLIGHT): Order.MULTIPLEXED_PIPELINED,
    (Order.MULTIPLEXED, PairingEvent.DIALECT_ORDERS): Order.LOCK_STEP,
    (Order.MULTIPLEXED_PIPELINED, PairingEvent.DIALECT_ORDERS): Order.PIPELINED,
    #
    (Certainty.CERTAIN, PairingEvent.SILENCE): Certainty.CERTAIN,
    (Certainty.CERTAIN, PairingEvent.BODY_REFUSED): Certainty.REFUSED_BODY,
    (Certainty.CERTAIN, PairingEvent.HOLE_IN_PIPELINE): Certainty.ALIGNING,
    (Certainty.CERTAIN, PairingEvent.CONTRADICTION): Certainty.DOUBTFUL,
    (Certainty.REFUSED_BODY, PairingEvent.SILENCE): Certainty.REFUSED_BODY,
    (Certainty.REFUSED_BODY, PairingEvent.BODY_PASSED): Certainty.CERTAIN,
    (Certainty.REFUSED_BODY, PairingEvent.CONTRADICTION): Certainty.DOUBTFUL_BODY,
    (Certainty.ALIGNING, PairingEvent.SILENCE): Certainty.SILENT,
    (Certainty.ALIGNING, PairingEvent.ALIGNED): Certainty.CERTAIN,
    (Certainty.SILENT, PairingEvent.SILENCE): Certainty.SILENT,
    (Certainty.SILENT, PairingEvent.ANSWERS_LOST): Certainty.ALIGNING,
    (Certainty.SILENT, PairingEvent.ALIGNED): Certainty.CERTAIN,
    (Certainty.DOUBTFUL, PairingEvent.SILENCE): Certainty.CERTAIN,
    (Certainty.DOUBTFUL, PairingEvent.CONTRADICTION): Certainty.DOUBTFUL,
    (Certainty.DOUBTFUL_BODY, PairingEvent.SILENCE): Certainty.REFUSED_BODY,
    (Certainty.DOUBTFUL_BODY, PairingEvent.BODY_PASSED): Certainty.DOUBTFUL,
    (Certainty.DOUBTFUL_BODY, PairingEvent.CONTRADICTION): Certainty.DOUBTFUL_BODY,
    #
    (Origin.BEFORE_CAPTURE, PairingEvent.FIRST_MATCH): Origin.KNOWN,
}


class TransitionError(Exception):
    """An event in a state where it cannot occur: an error of match.py, never of the input."""


def following(state: _S, event: PairingEvent) -> _S:
    """The state after an event. Raises TransitionError where the table has no row."""
    try:
        return cast("_S", TRANSITIONS[state, event])
    except KeyError:
        raise TransitionError(f"{event.name} in state {state}") from None
