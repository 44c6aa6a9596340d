"""Damage to the order of frames, whatever they hold."""

from collections.abc import Callable
from random import Random

from tests.fuzz.seeds import FrameOnWire

Frames = list[FrameOnWire]
Mutator = Callable[[Random, Frames], Frames]


def order(rng: Random, frames: Frames) -> Frames:
    """Frames lost, doubled, early, or of the other side."""
    i, how = rng.randrange(len(frames)), rng.randrange(4)
    if how == 0:
        del frames[i]
    elif how == 1:
        frames[i:i] = [frames[i]] * rng.choice((1, 30))
    elif how == 2:
        frames.insert(rng.randrange(len(frames)), frames.pop(i))
    else:
        frames[i] = frames[i]._replace(direction=1 - frames[i].direction)
    return frames
