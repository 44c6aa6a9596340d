"""Decoding many connections together: forensics learns what it does packet by packet, and no garbage is left."""

import gc
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dissectors
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.records import DEFAULT_TABLES
from dissectors.rows.sink import Suspect
from dissectors.run import Run
from dissectors.wire.codec_sums import counting

SAMPLES = sorted((Path(__file__).parent.parent / "samples").glob("*.pcap*"))
AT_ONCE = Limits(block_packets=7, decode_bytes=1)
"""A few packets are decoded before the next are read."""


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_forensics_learns_the_same_however_much_is_decoded_together(path: Path) -> None:
    def learned(limits: Limits) -> tuple[list[Suspect], Counter[tuple[str, str]]]:
        run = Run([str(path)], Options(limits=limits))
        run.suspects = []
        with counting() as sums:
            for _ in run.records():
                pass
        return sorted(suspect._replace(conn=None) for suspect in run.suspects), +sums  # type: ignore[arg-type]

    want = learned(Limits())
    assert learned(AT_ONCE) == want
    assert want[1] or "codecs" not in path.name


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_bodies_of_named_apis_are_those_that_full_gives(path: Path) -> None:
    def rows(options: Options) -> list[dict[str, Any]]:
        return [row for _, batch in Run([str(path)], options).records() for row in batch.to_pylist()]

    whole = rows(Options(("exchanges",), full=True))
    some = sorted({row["api"] or "" for row in whole})[::2]
    for row in whole:
        if row["api"] not in some:
            row["request"] = row["response"] = None
    assert rows(Options(("exchanges",), full=True, bodies_of=tuple(some))) == whole


@pytest.mark.parametrize("path", SAMPLES, ids=lambda p: p.stem)
def test_what_was_decoded_needs_no_garbage_collector(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    garbage: list[str] = []
    decode = Engine.decode

    def look(self: Engine) -> None:
        gc.collect()
        decode(self)
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        gc.set_debug(0)
        garbage.extend(type(one).__module__ for one in gc.garbage)
        gc.garbage.clear()

    monkeypatch.setattr(Engine, "decode", look)
    dissectors.dissect([path], DEFAULT_TABLES)
    assert not [module for module in garbage if module.startswith(("dissectors", "numpy", "pyarrow"))]
