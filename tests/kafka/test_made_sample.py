"""The sample that is written by hand is what its program writes."""

from pathlib import Path

from tests.kafka.made_sample import packets
from tests.wires import pcap

SAMPLE = Path(__file__).parents[2] / "samples" / "kafka-made.pcap"


def test_the_sample_is_what_the_program_writes() -> None:
    assert SAMPLE.read_bytes() == pcap(packets()), "run `python -m tests.kafka.made_sample samples/kafka-made.pcap`"
