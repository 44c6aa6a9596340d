"""Mutated captures of all layers give rows, findings or one clear error, in time and within the limit of memory."""

import os
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from random import Random

import pytest

import dissectors
from tests.fuzz import cases, check, files, harness, packets
from tests.fuzz.seeds import CLIENT, SERVER, SERVER_PORTS, frame_size, frames, on_wire, seeds
from tests.wires import pcap

HERE = Path(__file__).parent
KEPT = sorted((HERE / "captures").glob("*.pcap*"))
SECONDS = float(os.environ.get("FUZZ_SECONDS", 15))
LATE = 1800  # seconds in which the machine has surely come to it


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_what_failed_once_fails_no_more(path: Path) -> None:
    for number in (0, 3, 6):  # every format, and what the commands answer
        check.judge(path, path, None, number)


def test_mutated_captures_are_rows_and_findings(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz", "--seconds", str(SECONDS), "--keep", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(HERE.parent.parent)}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=SECONDS + LATE, env=environment, cwd=tmp_path
    )
    print(done.stdout)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", harness.targets())
def test_each_target_of_the_harness_takes_what_the_samples_hold(name: str) -> None:
    target = harness.targets()[name]
    for data in target.corpus()[:2]:
        harness.run(target, data)
    for data in islice(harness.mutated(Random(1), target.corpus()), 5):
        harness.run(target, data)


# --- the fuzzer itself -----------------------------------------------------------------------------------------------


def test_a_case_is_a_function_of_its_numbers() -> None:
    for number in range(5):
        assert cases.make(7, number).data == cases.make(7, number).data != cases.make(8, number).data


def test_every_mutator_has_its_turn() -> None:
    names: Counter[str] = Counter()
    for number in range(800):
        names.update(cases.make(3, number).name.partition(": ")[2].split(", "))
    every = [*files.PCAP, *files.PCAPNG, *files.ANY, *packets.PACKETS]
    every += [name for layer in cases.FRAMES.values() for name in layer]
    known = {seed.protocol for seed in seeds()} | ({"tls"} if any(seed.keylog for seed in seeds()) else set())
    assert not [name for name in every if not names[name] and (name != "tls records" or "tls" in known)]


@pytest.mark.parametrize("name", ["kafka-transactions", "pulsar-subscriptions", "iggy-messages", "iggy-vsr"])
def test_the_frames_of_an_intact_capture_give_its_exchanges_again(name: str, tmp_path: Path) -> None:
    seed = next(seed for seed in seeds() if seed.path.stem == name)
    again = tmp_path / seed.path.name
    again.write_bytes(pcap(on_wire(list(frames(seed.path, seed.protocol)), SERVER_PORTS[seed.protocol])))
    want, got = (
        Counter(dissectors.dissect(path, "exchanges")["exchanges"]["api"].to_pylist()) for path in (seed.path, again)
    )
    assert got == want


def test_sizes_of_frames_are_read_as_each_protocol_writes_them() -> None:
    assert frame_size("kafka", CLIENT, b"\0\0\0\x09" + bytes(9)) == 13
    assert frame_size("iggy", CLIENT, b"\x09\0\0\0" + bytes(9)) == 13
    assert frame_size("iggy", SERVER, b"\0\0\0\0\x05\0\0\0" + bytes(5)) == 13
    assert frame_size("vsr", CLIENT, bytes(48) + b"\0\2\0\0" + bytes(460)) == 512
    assert frame_size("tls", CLIENT, b"\x16\3\3\0\x08" + bytes(8)) == 13
    assert frame_size("pulsar", SERVER, b"\0\0\0") == 0


def test_a_case_that_takes_too_long_or_too_much_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    path = seeds()[0].path

    def slow(looked_at: Path, keylog: Path | None, number: int) -> None:
        end = time.process_time() + (0.3 if looked_at == path else 0.01)
        while time.process_time() < end:
            pass

    monkeypatch.setattr(check, "look", slow)
    check.judge(path, Path("intact"), None, 1)
    monkeypatch.setattr(check, "FLOOR", 0.1)
    with pytest.raises(check.FuzzFailureError, match="the intact capture takes"):
        check.judge(path, Path("intact"), None, 1)
    monkeypatch.setattr(check, "MEMORY", 1 << 10)
    if sys.platform == "linux":
        with pytest.raises(check.FuzzFailureError, match="MiB at most"):
            check.judge(path, path, None, 2)
