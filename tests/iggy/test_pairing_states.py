"""The states of pairing: the table is whole, and every row of it occurs."""

from itertools import product
from random import Random

import pytest

from dissectors.iggy import pairing_states
from dissectors.iggy.frames import SEND_MESSAGES
from dissectors.iggy.match import QUIET_NS, Pairing
from dissectors.iggy.pairing_states import (
    TRANSITIONS,
    Certainty,
    Order,
    Origin,
    PairingEvent,
    State,
    TransitionError,
    following,
)
from dissectors.iggy.pending import INVALID_COMMAND, Answer, IggyRequest
from dissectors.limits import PAIRING_CREDIT, PAIRING_STEPS_PER_FRAME
from dissectors.session.frame import Frame
from tests.feeding import CLIENT

STATES: list[State] = [*Order, *Certainty, *Origin]
INITIAL: set[State] = {Order.LOCK_STEP, Certainty.CERTAIN, Origin.BEFORE_CAPTURE}
LISTED = sorted(TRANSITIONS, key=str)
UNLISTED = [pair for pair in product(STATES, PairingEvent) if pair not in TRANSITIONS]


@pytest.mark.parametrize(("state", "event"), LISTED, ids=str)
def test_a_listed_event_leads_to_its_state(state: State, event: PairingEvent) -> None:
    after: State = following(state, event)
    assert after is TRANSITIONS[state, event]
    assert type(after) is type(state)


@pytest.mark.parametrize(("state", "event"), UNLISTED, ids=str)
def test_an_event_that_cannot_occur_in_a_state_is_an_error(state: State, event: PairingEvent) -> None:
    with pytest.raises(TransitionError, match=event.name):
        following(state, event)


def test_every_state_can_be_reached() -> None:
    reached = set(INITIAL)
    for _ in STATES:
        reached |= {after for (before, _), after in TRANSITIONS.items() if before in reached}
    assert reached == set(STATES)


def test_every_event_belongs_to_one_question() -> None:
    for event in PairingEvent:
        assert len({type(state) for state, its in TRANSITIONS if its is event}) == 1, event


def test_a_silence_ends_every_doubt_and_may_come_in_every_state_of_certainty() -> None:
    after = {TRANSITIONS[state, PairingEvent.SILENCE] for state in Certainty}
    assert not after & {Certainty.DOUBTFUL, Certainty.DOUBTFUL_BODY, Certainty.ALIGNING}


def test_the_documentation_explains_every_state() -> None:
    for state in STATES:
        assert f"\n    {state.name} " in (pairing_states.__doc__ or ""), state


# --- the table and the code that follows it --------------------------------------------------------------------------


def fits(call: IggyRequest, answer: Answer) -> bool:
    """Only polls are answered with a payload."""
    return answer.length == 0 or call.api_code == 100


class Walk:
    """A connection on which anything may happen, in any order."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.pairing = Pairing(fits, fits, random.choice((4, 100)), midstream=random.random() < 0.5)
        self.by_id = random.random() < 0.4
        self.order = self.time = 0

    def step(self) -> None:
        act = self.random.choices((self.request, self.answer, self.hole), (8, 10, 1))[0]
        act()

    def request(self) -> None:
        self.time += self.random.choice((1, 1, 1, 2 * QUIET_NS))
        self.order += self.random.choice((0, 1, 1))
        size, code = self.random.choice((8, 16, 40)), self.random.choice((1, 100, SEND_MESSAGES))
        call = IggyRequest(
            Frame(CLIENT, b"", 0, 0, size, size, 0, self.order, self.time, self.time, 1).facts(), "", code
        )
        if self.by_id:
            call.correlation_id = self.random.randrange(3)
        self.pairing.send(call)

    def answer(self) -> None:
        self.order += 1
        status = self.random.choice((0, 0, 0, INVALID_COMMAND, INVALID_COMMAND, INVALID_COMMAND, 40))
        length = 0 if status else self.random.choice((0, 0, 9))
        lost = self.random.choice((0, 0, 0, 8, 24, 60))
        request = self.random.randrange(4) if self.by_id else None
        if self.by_id:
            self.pairing.multiplex(self.random.random() < 0.5)
        self.pairing.answer(Answer(self.order, self.time, status, length, request), lost)

    def hole(self) -> None:
        self.order += 1
        self.pairing.hole(self.order)


def test_every_row_of_the_table_occurs_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    occurred: set[tuple[State, PairingEvent]] = set()

    class Noted(dict[tuple[State, PairingEvent], State]):
        def __getitem__(self, row: tuple[State, PairingEvent]) -> State:
            occurred.add(row)
            return super().__getitem__(row)

    monkeypatch.setattr(pairing_states, "TRANSITIONS", Noted(TRANSITIONS))
    for seed in range(1_500):
        random = Random(seed)
        credit = random.choice((0, 5, 20, PAIRING_CREDIT))
        walk = Walk(random)
        walk.pairing._steps = credit
        for _ in range(40):
            walk.pairing._steps -= PAIRING_STEPS_PER_FRAME - 1  # so that searches are abandoned, too
            walk.step()
    assert occurred == set(TRANSITIONS)
