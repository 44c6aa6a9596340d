"""Broken bytes in a whole connection: found, placed in the packet, and blamed on the right party."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from dissectors.capture.reader import Reader
from dissectors.forensics import report
from dissectors.forensics.cases import Case
from dissectors.limits import Limits
from tests.kafka import wire
from tests.wires import checksum

from .scene import (
    BATCH,
    HEADERS,
    STORED,
    VALUE,
    Scene,
    broken,
    find,
    investigate,
    investigate_paths,
    kafka,
    offloaded,
    repair,
)

COVERED, CRC = 21, 17
WHOLE = kafka()
ALONE = WHOLE.packets[:5]  # produced, never consumed
PRODUCED, FETCHED = find(WHOLE.packets, BATCH)[0], find(WHOLE.packets, STORED)[0]


def only(cases: list[Case]) -> Case:
    assert len(cases) == 1
    return cases[0]


@pytest.mark.parametrize("mss", [1460, 100, 7])
def test_nothing_is_wrong_with_intact_bytes(tmp_path: Path, mss: int) -> None:
    assert investigate(tmp_path, kafka(mss).packets) == []


@pytest.mark.parametrize("how", ["zero", "partial"])
def test_offloaded_sums_alone_accuse_nobody(tmp_path: Path, how: str) -> None:
    assert investigate(tmp_path, [offloaded(p, how) for p in WHOLE.packets]) == []


@pytest.mark.parametrize("dropped", range(3, len(kafka(300).packets)))
def test_lost_packets_accuse_nobody(tmp_path: Path, dropped: int) -> None:
    packets = kafka(300).packets
    assert investigate(tmp_path, packets[:dropped] + packets[dropped + 1 :]) == []


def test_packets_cut_by_the_capture_accuse_nobody(tmp_path: Path) -> None:
    assert investigate(tmp_path, [p._replace(data=p.data[:200]) for p in WHOLE.packets]) == []


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.integers(COVERED, len(BATCH) - 1),
    st.integers(0, 7),
    st.booleans(),
    st.booleans(),
    st.sampled_from([1460, 100, 33]),
)
def test_a_flipped_bit_is_found_to_the_byte_of_the_packet(
    tmp_path: Path, at: int, bit: int, repaired: bool, consumed: bool, mss: int
) -> None:
    packets = list(kafka(mss).packets)
    unit = STORED if consumed else BATCH
    stream = b"".join(p.data[HEADERS:] for p in packets if (p.data[34:36] == b"\x23\x84") is consumed)
    target = stream.index(unit) + at
    index, offset = packet_ref(packets, target, consumed)
    packets[index] = broken(packets[index], {offset: 1 << bit}, repaired=repaired)
    case = only(investigate(tmp_path, packets))
    assert case.diagnosis.pattern == "single_bit"
    assert case.diagnosis.verified
    (spot,) = case.locations
    assert (spot.packet, spot.packet_offset, spot.bit) == (index + 1, offset, bit)
    assert (spot.was, spot.should_be) == (unit[at] ^ 1 << bit, unit[at])
    assert case.attribution.where == ("before_tcp" if repaired else "after_tcp")
    against = repaired and not consumed  # the broker took it, and it checks
    assert case.attribution.certainty == ("likely" if against else "certain")
    assert case.corrected == unit
    assert (case.row["topic"], case.row["partition"]) == ("orders", 3)


def packet_ref(packets: list, target: int, from_server: bool) -> tuple[int, int]:
    """(index, offset in the packet) of a byte of a direction's stream."""
    at = 0
    for index, packet in enumerate(packets):
        size = len(packet.data) - HEADERS
        if (packet.data[34:36] == b"\x23\x84") is from_server and size:
            if at <= target < at + size:
                return index, HEADERS + target - at
            at += size
    raise AssertionError(target)


@pytest.mark.parametrize("bit", range(0, 32, 5))
@pytest.mark.parametrize("repaired", [True, False])
def test_a_flip_in_the_stored_checksum_is_reported_as_such(tmp_path: Path, bit: int, repaired: bool) -> None:
    packets = list(WHOLE.packets)
    offset = packets[PRODUCED].data.index(BATCH) + CRC + bit // 8
    packets[PRODUCED] = broken(packets[PRODUCED], {offset: 1 << bit % 8}, repaired=repaired)
    case = only(investigate(tmp_path, packets))
    assert case.diagnosis.pattern == "stored_checksum"
    (spot,) = case.locations
    assert (spot.packet, spot.packet_offset, spot.bit, spot.field) == (PRODUCED + 1, offset, bit % 8, "crc")
    assert case.attribution.where == ("before_tcp" if repaired else "after_tcp")
    assert case.corrected == BATCH


@pytest.mark.parametrize(
    ("what", "name"),
    [(b"1:The", "record 1 (offset 1) value"), (b"key-3", "record 3 (offset 3) key")],
)
def test_the_field_and_the_record_are_named(tmp_path: Path, what: bytes, name: str) -> None:
    packets = list(WHOLE.packets)
    offset = packets[PRODUCED].data.index(what)
    packets[PRODUCED] = broken(packets[PRODUCED], {offset: 4}, repaired=True)
    assert only(investigate(tmp_path, packets)).locations[0].field == name


@pytest.mark.parametrize("how", ["zero", "partial"])
def test_a_broken_packet_whose_sum_was_offloaded_leaves_it_undecided(tmp_path: Path, how: str) -> None:
    packets = [offloaded(p, how) for p in Scene().say(0, kafka().packets[PRODUCED].data[HEADERS:]).packets]
    packets[-1] = broken(packets[-1], {200: 1}, repaired=False)
    case = only(investigate(tmp_path, packets))
    assert (case.diagnosis.pattern, case.attribution.where, case.attribution.certainty) == (
        "single_bit",
        "undecided",
        "undecided",
    )
    assert "network card" in case.attribution.because[0]


def test_sums_that_are_all_wrong_decide_nothing(tmp_path: Path) -> None:
    sent = [p for p in kafka(60).packets[:15] if p.data[34:36] == b"\x9c\x40"]
    packets = [p._replace(data=p.data[:50] + b"\x12\x34" + p.data[52:]) for p in sent]
    index, offset = find(packets, b"fox")
    packets[index] = broken(packets[index], {offset: 1}, repaired=False)
    case = only(investigate(tmp_path, packets))
    assert case.attribution.where == "undecided"
    assert "prove nothing" in case.attribution.because[0]


@pytest.mark.parametrize("repaired", [True, False])
def test_a_retransmission_with_other_bytes_shows_what_was_right(tmp_path: Path, repaired: bool) -> None:
    scene = kafka()
    scene.again(PRODUCED, after=PRODUCED)
    offset = scene.packets[PRODUCED].data.index(VALUE)
    changes = {offset + i: 0x55 + i for i in range(30)}  # far beyond what a checksum could locate
    scene.packets[PRODUCED] = broken(scene.packets[PRODUCED], changes, repaired=repaired)
    case = only(investigate(tmp_path, scene.packets))
    assert case.diagnosis.verified
    assert {spot.packet_offset for spot in case.locations} == set(changes)
    assert case.corrected == BATCH
    assert case.attribution.where == ("before_tcp" if repaired else "after_tcp")
    assert f"packet {PRODUCED + 2}" in case.attribution.because[0]


def test_a_broken_second_copy_changes_no_verdict(tmp_path: Path) -> None:
    scene = kafka()
    scene.again(PRODUCED, after=PRODUCED)
    scene.packets[PRODUCED + 1] = broken(scene.packets[PRODUCED + 1], {300: 1}, repaired=True)
    assert investigate(tmp_path, scene.packets) == []


def test_a_swap_that_the_tcp_sum_cannot_see_leaves_it_undecided(tmp_path: Path) -> None:
    packets = ALONE[: PRODUCED + 1]  # nor did anybody answer
    offset = packets[PRODUCED].data.index(VALUE) & ~1
    data = bytearray(packets[PRODUCED].data)
    data[offset : offset + 4] = data[offset + 2 : offset + 4] + data[offset : offset + 2]
    packets[PRODUCED] = packets[PRODUCED]._replace(data=bytes(data))
    case = only(investigate(tmp_path, packets))
    assert (case.diagnosis.pattern, case.diagnosis.verified) == ("swapped", True)
    assert case.attribution.where == "undecided"
    assert "cannot see" in case.attribution.because[0]


def test_a_run_of_zeros_is_recognised_and_blamed_by_the_tcp_sum(tmp_path: Path) -> None:
    for repaired in (True, False):
        packets, changes = zeroed(list(ALONE), repaired)
        case = only(investigate(tmp_path, packets))
        assert (case.diagnosis.pattern, case.diagnosis.verified) == ("zeroed_run", False)
        assert [spot.packet_offset for spot in case.locations] == sorted(changes)
        assert case.attribution.where == ("before_tcp" if repaired else "after_tcp")


def test_the_same_batch_elsewhere_shows_what_the_zeros_were(tmp_path: Path) -> None:
    packets, changes = zeroed(list(WHOLE.packets), repaired=False)
    case = only(investigate(tmp_path, packets))
    assert (case.diagnosis.pattern, case.diagnosis.verified) == ("zeroed_run", True)
    assert {spot.packet_offset: spot.should_be for spot in case.locations} == changes
    assert case.corrected == BATCH
    assert case.attribution.certainty == "certain"


def zeroed(packets: list, repaired: bool) -> tuple[list, dict[int, int]]:
    """With six bytes of a value zero, and what they were."""
    data = packets[PRODUCED].data
    offset = data.index(VALUE) + 10
    changes = {offset + i: data[offset + i] for i in range(6)}
    packets[PRODUCED] = broken(packets[PRODUCED], changes, repaired=repaired)
    return packets, changes


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.integers(COVERED, len(BATCH) - 4), st.binary(min_size=3, max_size=3), st.sampled_from([1460, 100]))
def test_a_burst_that_the_crc_leaves_open_is_found_with_the_tcp_sum(
    tmp_path: Path, at: int, change: bytes, mss: int
) -> None:
    assume(change[0] and change[2])
    packets = list(kafka(mss).packets[: 5 if mss == 1460 else 10])
    stream = b"".join(p.data[HEADERS:] for p in packets if p.data[34:36] == b"\x9c\x40")
    target = stream.index(BATCH) + at
    index, offset = packet_ref(packets, target, False)
    assume(packet_ref(packets, target + 2, False)[0] == index)
    changes = {offset + i: x for i, x in enumerate(change) if x}
    sound, packets[index] = packets[index], broken(packets[index], changes, repaired=False)
    assume(checksum(sound.data) != checksum(packets[index].data))  # else no sum sees it
    case = only(investigate(tmp_path, packets))
    assert case.corrected == BATCH
    assert {spot.packet_offset for spot in case.locations} == set(changes)
    assert (case.attribution.where, case.attribution.certainty) == ("after_tcp", "certain")


@pytest.mark.parametrize("how", ["zero", "partial"])
def test_that_the_broker_took_the_batch_says_that_it_broke_later(tmp_path: Path, how: str) -> None:
    packets = [offloaded(p, how) for p in ALONE]
    packets[PRODUCED] = broken(packets[PRODUCED], {200: 1}, repaired=False)
    case = only(investigate(tmp_path, packets))
    assert case.row["outcome"] == "ok"
    assert (case.attribution.where, case.attribution.certainty) == ("after_tcp", "likely")
    assert "stored the batch" in case.attribution.because[-1]


def test_the_bytes_of_another_packet_are_recognised(tmp_path: Path) -> None:
    """A continuation of a request carries what an earlier packet carried."""
    value = " ".join(f"word{i * i}" for i in range(200)).encode()
    other = " ".join(f"noun{i * i * i}" for i in range(200)).encode()
    scene = Scene(300)
    for number, text in enumerate((value, other)):
        scene.say(0, wire.produce(number, {("orders", 3): wire.batch([wire.record(0, None, text)])}))
    source, target = 5, len(scene.packets) - 3
    data = scene.packets[target].data[:HEADERS] + scene.packets[source].data[HEADERS:]
    scene.packets[target] = repair(scene.packets[target]._replace(data=data))
    case = only(investigate(tmp_path, scene.packets))
    assert (case.diagnosis.pattern, case.diagnosis.verified) == ("other_segment", False)
    assert f"those of packet {source + 1}, from byte 0" in case.diagnosis.note
    assert {spot.packet for spot in case.locations} == {target + 1}


# --- other sightings of the batch ------------------------------------------------------------------------------------


def both_broken(packets: list, produced: bool, consumed: bool) -> list:
    for index, wanted in ((PRODUCED, produced), (FETCHED, consumed)):
        if wanted:
            offset = packets[index].data.index(VALUE)
            packets[index] = broken(packets[index], {offset + i: 0x41 + 3 * i for i in range(40)}, repaired=False)
    return [offloaded(p, "partial") for p in packets]


@pytest.mark.parametrize(
    ("produced", "consumed", "role", "where"),
    [
        (False, True, "consume", "broker"),
        (True, True, "produce", "producer"),
        (True, True, "consume", "producer"),
        (True, False, "produce", "after_tcp"),
    ],
)
def test_where_no_sum_decides_the_first_wrong_hop_does(
    tmp_path: Path, produced: bool, consumed: bool, role: str, where: str
) -> None:
    cases = investigate(tmp_path, both_broken(list(WHOLE.packets), produced, consumed))
    assert len(cases) == produced + consumed
    case = next(case for case in cases if case.row["role"] == role)
    assert (case.attribution.where, case.attribution.certainty) == (where, "likely")
    assert any(seen["role"] != role for seen in case.related)


def test_what_was_produced_broken_is_not_blamed_on_the_broker_that_sends_it(tmp_path: Path) -> None:
    packets = list(WHOLE.packets)
    for index in (PRODUCED, FETCHED):
        offset = packets[index].data.index(VALUE)
        packets[index] = broken(packets[index], {offset + i: 0x41 + 3 * i for i in range(40)}, repaired=True)
    produced, consumed = investigate(tmp_path, packets)
    assert produced.attribution.where == "before_tcp"
    assert consumed.attribution.where == "producer"


def test_what_was_produced_intact_and_handed_out_broken_broke_in_the_sender(tmp_path: Path) -> None:
    packets = list(WHOLE.packets)
    packets[FETCHED] = broken(packets[FETCHED], {packets[FETCHED].data.index(VALUE): 0x21}, repaired=True)
    case = only(investigate(tmp_path, packets))
    assert (case.attribution.where, case.attribution.certainty) == ("before_tcp", "certain")
    assert "broke in the broker" in case.attribution.because[-1]


def test_another_capture_point_where_the_bytes_are_right_is_evidence(tmp_path: Path) -> None:
    packets = [offloaded(p, "zero") for p in Scene().say(0, WHOLE.packets[PRODUCED].data[HEADERS:]).packets]
    wrong = [*packets[:-1], broken(packets[-1], {200: 1}, repaired=False)]
    investigate(tmp_path / "client", packets)
    investigate(tmp_path / "broker", wrong)
    case = only(investigate_paths([tmp_path / "client" / "a.pcap", tmp_path / "broker" / "a.pcap"]))
    assert case.attribution.where == "after_tcp"
    assert case.related[0]["why"] == "same connection, other capture point"


# --- output ----------------------------------------------------------------------------------------------------------


def a_case(folder: Path) -> Case:
    packets = list(WHOLE.packets)
    packets[PRODUCED] = broken(packets[PRODUCED], {packets[PRODUCED].data.index(VALUE): 2}, repaired=False)
    return only(investigate(folder, packets))


def test_the_json_object_has_its_documented_keys(tmp_path: Path) -> None:
    shown = json.loads(json.dumps(report.as_json(a_case(tmp_path))))
    top = (
        "protocol checksum_kind stored computed role topic partition base_offset position connection incarnation time "
        "file packet stream_offset length diagnosis attribution related packets inner"
    )
    assert set(shown) == set(top.split())
    assert set(shown["diagnosis"]) >= {"pattern", "locations", "verified"}
    assert set(shown["diagnosis"]["locations"][0]) >= {
        "file",
        "packet",
        "packet_offset",
        "bit",
        "was",
        "should_be",
        "field",
    }
    assert set(shown["attribution"]) == {"where", "certainty", "because"}
    assert shown["length"] == len(BATCH)
    assert shown["stored"] != shown["computed"]


def test_the_text_names_packet_byte_bit_and_blame(tmp_path: Path) -> None:
    text = "\n".join(line.lead + line.text for line in report.as_lines(a_case(tmp_path), 1))
    offset = WHOLE.packets[PRODUCED].data.index(VALUE)
    assert f"packet {PRODUCED + 1} byte {offset} bit 1" in text
    assert "after_tcp, certain" in text
    assert f"frame.number in {{{PRODUCED + 1}}}" in text


def test_extracted_files_hold_the_batch_and_its_packets(tmp_path: Path) -> None:
    files = report.extract(a_case(tmp_path), 1)
    received, corrected, packets = (files[f"001-{name}"] for name in ("received.bin", "corrected.bin", "packets.pcap"))
    assert corrected == BATCH
    assert sum(a != b for a, b in zip(received, BATCH, strict=True)) == 1
    capture = tmp_path / "packets.pcap"
    capture.write_bytes(packets)
    (block,) = Reader(str(capture), 0, Limits()).blocks()
    assert block.time.tolist() == [WHOLE.packets[PRODUCED].time]
    assert repair(WHOLE.packets[PRODUCED]) == WHOLE.packets[PRODUCED]


def test_beyond_the_limit_a_verdict_is_reported_without_a_diagnosis(tmp_path: Path) -> None:
    packets = list(WHOLE.packets)
    packets[PRODUCED] = broken(packets[PRODUCED], {packets[PRODUCED].data.index(VALUE): 2}, repaired=False)
    case = only(investigate(tmp_path, packets, limits=Limits(suspects=0)))
    assert case.diagnosis.pattern == "unknown"
    assert list(report.as_lines(case, 1))
    assert report.as_json(case)["attribution"]["where"] == "undecided"
