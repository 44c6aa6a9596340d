"""A capture decoded in two halves, by two processes if wanted: what the first makes, its state, what the second makes.

python -m tests.fuzz.halves begin|end CAPTURE STATE
"""

import json
import pickle
import sys
from pathlib import Path

from dissectors.capture.reader import Reader
from dissectors.compiling.saved_state import read_state
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES

LIMITS = Limits(block_packets=20)


def begin(capture: str, state: Path) -> str:
    """The rows of the first half of the packets, as JSON; what is open then goes to `state`."""
    engine = Engine(Options(tables=tuple(TABLES), limits=LIMITS), [capture])
    blocks = list(Reader(capture, 0, LIMITS).blocks())
    for block in blocks[: len(blocks) // 2]:
        engine.feed("", block)
        engine.decode()
    rows = _rows(engine)
    state.write_bytes(pickle.dumps(engine))
    return rows


def end(capture: str, state: Path) -> str:
    """The rows of the second half, from that state on."""
    engine: Engine = read_state(state.read_bytes())
    blocks = list(Reader(capture, 0, LIMITS).blocks())
    for block in blocks[len(blocks) // 2 :]:
        engine.feed("", block)
        engine.decode()
    for _ in engine.end():
        pass
    return _rows(engine)


def _rows(engine: Engine) -> str:
    decoded = engine.take()
    return json.dumps([(table, batch.to_pylist()) for table, batch in decoded.batches], default=str)


if __name__ == "__main__":
    print({"begin": begin, "end": end}[sys.argv[1]](sys.argv[2], Path(sys.argv[3])))
