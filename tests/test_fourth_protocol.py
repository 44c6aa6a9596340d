"""A protocol is a folder and one line: a fourth one gets exchanges, tables and forensics without a change elsewhere."""

import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

import dissectors
from dissectors.capture.reader import Reader
from dissectors.engine import Engine
from dissectors.limits import Limits
from dissectors.options import Options
from dissectors.session.protocols import named, protocols, register, unregister
from pipelines.report.page import colours
from tests.feeding import CLIENT, SERVER, feed_every_way
from tests.forensics.scene import Scene, broken, investigate
from tests.toy import TOY, Toy, message
from tests.wires import Side, pcap

SERVER_END = Side("10.0.0.1", 7007)


@pytest.fixture(autouse=True)
def _toy() -> Iterator[None]:
    register(TOY)
    yield
    unregister(TOY.name)


def scene() -> Scene:
    conversation = Scene(server=SERVER_END)
    conversation.say(0, message(1, 1, b"hello, world, hello again")).say(1, message(1, 0))
    return conversation.say(0, message(2, 2)).say(1, message(2, 9)).say(0, message(3, 1, b"lost"))


def test_it_is_recognised_by_content_and_reported_like_the_others(tmp_path: Path) -> None:
    path = tmp_path / "toy.pcap"
    path.write_bytes(pcap(scene().packets, nano=True))
    tables = dissectors.dissect(path)
    exchanges = tables["exchanges"].to_pylist()
    assert [(e["protocol"], e["api"], e["kind"], e["status"], e["error_name"]) for e in exchanges] == [
        ("toy", "PUT", "call", "ok", None),
        ("toy", "GET", "call", "error", "FULL"),
        ("toy", "PUT", "unanswered", "unknown", None),
    ]
    assert exchanges[0]["wait_ns"] == 1_000_000
    assert [e["name"] for e in tables["errors"].to_pylist()] == ["FULL"]
    assert tables["errors"].to_pylist()[0]["exchange_id"] == exchanges[1]["exchange_id"]
    assert {b["verdict"] for b in tables["batches"].to_pylist()} == {"ok"}
    (connection,) = tables["connections"].to_pylist()
    assert (connection["protocol"], connection["frames"], connection["skipped_bytes"]) == ("toy", 5, 0)


def test_its_connections_go_on_where_they_were_pickled(tmp_path: Path) -> None:
    path = tmp_path / "toy.pcap"
    path.write_bytes(pcap(scene().packets, nano=True))
    limits = Limits(block_packets=2)
    engine = Engine(Options(limits=limits), [str(path)])
    made = []
    for block in Reader(str(path), 0, limits).blocks():
        engine.feed("", block)
        engine.decode()
        made += engine.take().batches
        engine = pickle.loads(pickle.dumps(engine))
    for _ in engine.end():
        made += engine.take().batches
    rows = [row for table, batch in made if table == "exchanges" for row in batch.to_pylist()]
    assert [row["kind"] for row in rows] == ["call", "call", "unanswered"]


def test_forensics_names_the_bit_and_the_field(tmp_path: Path) -> None:
    packets = scene().packets
    at = packets[3].data.index(b"world")
    packets[3] = broken(packets[3], {at: 0x20}, repaired=True)
    (case,) = investigate(tmp_path, packets)
    (location,) = case.locations
    assert (location.field, location.packet) == ("payload", 4)


def test_the_report_has_its_colours() -> None:
    assert "--toy:#123456" in colours()


def test_its_frames_do_not_care_how_they_are_cut() -> None:
    feed_every_way(TOY, [(CLIENT, message(1, 1, b"x")), (SERVER, message(1, 0))])


def test_a_name_that_is_taken_is_refused() -> None:
    class Other(Toy):
        name = "kafka"

    with pytest.raises(ValueError, match="kafka"):
        register(Other())
    assert named("toy") is TOY
    assert len(protocols()) == 4
