"""Make a failing capture small: `python -m tests.fuzz.shrink CAPTURE [OUT]`. Classic pcap only.

Takes packets out, in halves, quarters and so on, as long as what fails is the same. The outcome belongs into
tests/fuzz/captures, where it is looked at in every run of the tests.
"""

import sys
import tempfile
from pathlib import Path

from tests.fuzz import check
from tests.fuzz.seeds import read_pcap
from tests.wires import Packet, pcap


def trouble(data: bytes, path: Path) -> str:
    """What fails, and where; nothing where nothing does."""
    path.write_bytes(data)
    for number in (0, 3, 6):  # csv and answers, text, parquet
        try:
            check.judge(path, path, None, number)
        except Exception as error:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            return f"{type(error).__name__} in {'' if trace is None else trace.tb_frame.f_code.co_qualname}"
    return ""


def shrink(data: bytes, path: Path) -> bytes:
    """The smallest capture found that fails in the same way."""
    link, kept = read_pcap(data)
    wanted = trouble(data, path)
    if not wanted:
        raise SystemExit("this capture does not fail")
    step = len(kept) // 2
    while step:
        at = 0
        while at < len(kept):
            fewer = kept[:at] + kept[at + step :]
            if trouble(pcap(fewer, nano=True, link=link), path) == wanted:
                kept = fewer
            else:
                at += step
        step //= 2
    return pcap([Packet(*packet) for packet in kept], nano=True, link=link)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        small = shrink(source.read_bytes(), Path(folder, "case.pcap"))
    target = Path(sys.argv[2]) if len(sys.argv) > 2 else source.with_stem(source.stem + "-small")
    target.write_bytes(small)
    print(f"{target}: {len(small)} bytes")
