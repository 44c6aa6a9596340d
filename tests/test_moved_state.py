"""What an engine keeps moves between compiled and uncompiled processes: the rows are those of one process."""

import json
import os
import pickle
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest

from dissectors.capture.block import PacketBlock
from dissectors.capture.reader import Reader
from dissectors.compiling import loading
from dissectors.compiling.saved_state import read_state
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import TABLES
from dissectors.tcp.packed import Learned, Packer

ROOT = Path(__file__).parent.parent
SAMPLES = sorted(path.name for path in (ROOT / "samples").glob("*.pcap"))
LIMITS = Limits(unpacked=1)  # all other idle connections are kept as bytes
CODE = "import sys; from tests.test_moved_state import go_on; go_on(*sys.argv[1:])"


def blocks_of(sample: str, packets: int = 110) -> list[PacketBlock]:
    """The packets of a sample, so many in a block."""
    return list(Reader(str(ROOT / "samples" / sample), 0, Limits(block_packets=packets)).blocks())


def decoded(engine: Engine, block: PacketBlock, last: bool) -> list[str]:
    """The rows that an engine makes of a block, and of the end behind the last one."""
    engine.feed("", block)
    engine.decode()
    made = engine.take().batches
    if last:
        made += chain.from_iterable([engine.take().batches for _ in engine.end()])
    return [json.dumps([table, row], default=str) for table, batch in made for row in batch.to_pylist()]


def new_engine(sample: str) -> Engine:
    return Engine(Options(tables=tuple(TABLES), full=True, limits=LIMITS), [sample])


def go_on(sample: str, number: str, state: str) -> None:
    """Print the rows of one block of a sample, by the engine that is pickled in a file; keep it there."""
    blocks, at, kept = blocks_of(sample), int(number), Path(state)
    engine = read_state(kept.read_bytes()) if at else new_engine(sample)
    print(*decoded(engine, blocks[at], at + 1 == len(blocks)), sep="\n")
    kept.write_bytes(pickle.dumps(engine))


@pytest.mark.parametrize("sample", SAMPLES)
def test_rows_do_not_depend_on_where_state_is_written_and_read_again(sample: str) -> None:
    blocks, engine, other = blocks_of(sample, 10), new_engine(sample), new_engine(sample)
    for block in blocks:
        other = read_state(pickle.dumps(other))
        assert decoded(other, block, block is blocks[-1]) == decoded(engine, block, block is blocks[-1])


def test_what_packed_connections_have_in_common_is_read_and_written_any_number_of_times() -> None:
    """A method that an object keeps is pickled as a call of getattr, which reading does not allow as such."""
    packer = Packer([], Learned([getattr], b"what connections were like"))
    for _ in range(3):
        packer = read_state(pickle.dumps(packer))
    assert b"getattr" in pickle.dumps(packer)


@pytest.mark.parametrize("sample", ["iggy-messages.pcap", "kafka-loss.pcap", "pulsar-subscriptions.pcap"])
def test_state_of_compiled_code_is_read_by_uncompiled_code_and_back(sample: str, tmp_path: Path) -> None:
    blocks, engine = blocks_of(sample), new_engine(sample)
    want = [row for block in blocks for row in decoded(engine, block, block is blocks[-1])]
    got: list[str] = []
    for number in range(len(blocks)):
        done = subprocess.run(
            [sys.executable, "-c", CODE, sample, str(number), str(tmp_path / "state")],
            cwd=ROOT, env=os.environ | {loading.VARIABLE: str(number % 2)}, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        got += filter(None, done.stdout.splitlines())
    assert len(blocks) > 1
    assert sorted(got) == sorted(want)
