"""Names in captures and names of captures are anybody's: no command hands one to a terminal as it is."""

import json
import os
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import Result

from pipelines.cli import exits
from tests.commands import attempt
from tests.forensics.scene import Scene, broken
from tests.iggy import wire as iggy
from tests.kafka import wire as kafka
from tests.pipelines.conftest import SAMPLES
from tests.pulsar import wire as pulsar
from tests.wires import T0, Packet, Side, pcap

# clears the screen; fills the clipboard; makes a link; C1 controls; the end of a line in five ways; turns text around
NAME = "\x1b[2J\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\\x9b31m\x85\r\n\t\u2028\u202e\u200b<b>"
SHOWN = r"\x1b[2J\x1b]52;c;aGk=\x07\x1b]8;;http://x\x1b\\x9b31m\x85\r\n\t\u2028\u202e\u200b<b>"
OUT = NAME.replace("/", "").replace("\\", "")
FILE = f"-{NAME.replace('/', '')}\udcff"  # ends with a byte that is no UTF-8
PORTS = ("--decode-as", "9092=kafka", "--decode-as", "8090=iggy", "-j", "1")


def _kafka(name: str) -> list[Packet]:
    scene = Scene()
    batch = kafka.batch([kafka.record(0, name.encode(), name.encode(), [(name.encode(), name.encode())])])
    scene.say(0, kafka.produce(1, {(name, 3): batch}, transactional_id=name, client=name))
    scene.say(1, kafka.produced(1, [(name, 3, 3, -1)]))
    scene.say(0, kafka.fetch(2, [(name, [3])], client=name)).say(1, kafka.fetched(2, {(name, 3): batch}))
    text, one = kafka.text(name), struct.pack(">i", 1)
    join = text + struct.pack(">ii", 1000, 1000) + text + text + one + text + bytes(4)
    scene.say(0, kafka.request(11, 2, 3, join, client=name))
    scene.say(1, kafka.response(11, 2, 3, struct.pack(">ihi", 0, 0, 1) + text * 3 + bytes(4)))
    create = one + text + struct.pack(">ihiiib", 1, 1, 0, 0, 1000, 0)
    scene.say(0, kafka.request(19, 1, 4, create, client=name))
    scene.say(1, kafka.response(19, 1, 4, one + text + struct.pack(">h", 36) + text))  # with an error message
    fetched = scene.packets[6]
    scene.packets[6] = broken(fetched, {fetched.data.rindex(name.encode()): 2}, repaired=True)
    return scene.packets


def _pulsar(name: str) -> list[Packet]:
    topic = f"persistent://a/b/{name}"
    properties: list[pulsar.Field] = [(1, name), (2, name)]
    scene = Scene(client=Side("10.0.0.3", 40001), server=Side("10.0.0.1", 6650))
    scene.say(0, pulsar.simple(pulsar.CONNECT, (1, name), (4, 21)))
    scene.say(1, pulsar.simple(pulsar.CONNECTED, (1, name), (2, 21)))
    produce: list[pulsar.Field] = [(1, topic), (2, 1), (3, 1), (4, name), (6, properties)]
    scene.say(0, pulsar.simple(pulsar.PRODUCER, *produce)).say(1, pulsar.producing(1, name))
    entry = pulsar.entry(pulsar.metadata(0, (4, properties), (6, name), producer=name), name.encode(), crc=5)
    scene.say(0, pulsar.send(0, entry))
    scene.say(1, pulsar.simple(pulsar.SEND_ERROR, (1, 1), (2, 0), (3, pulsar.CHECKSUM_ERROR), (4, name)))
    subscribe: list[pulsar.Field] = [(1, topic), (2, name), (3, 1), (4, 1), (5, 2), (6, name), (9, properties)]
    scene.say(0, pulsar.simple(pulsar.SUBSCRIBE, *subscribe)).say(1, pulsar.error(2, 11, name))
    return scene.packets


def _iggy(name: str) -> list[Packet]:
    scene = Scene(client=Side("10.0.0.4", 40002), server=Side("10.0.0.1", 8090))
    log_in = iggy.str8(name) + iggy.str8("s3cret-pass") + iggy.str32(name) + iggy.str32(name)
    scene.say(0, iggy.request(38, log_in)).say(1, iggy.answer(struct.pack("<I", 1)))
    scene.say(0, iggy.request(202, iggy.str8(name))).say(1, iggy.answer(b"", 1012))
    both = (bytes([2, len(name.encode())]) + name.encode()) * 3
    scene.say(0, iggy.request(604, both)).say(1, iggy.answer(b"", 5000))
    return scene.packets


@pytest.fixture(scope="module")
def captures(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Captures of the three protocols, from before the clock was set; their folder is where commands run."""
    folder = tmp_path_factory.mktemp("names") / FILE
    folder.mkdir()
    names = []
    for make in (_kafka, _pulsar, _iggy):
        names.append(f"{FILE}{make.__name__}.pcap")
        packets = [packet._replace(time=packet.time - T0) for packet in make(NAME)]
        (folder / names[-1]).write_bytes(pcap(packets, nano=True))
    (folder / f"{FILE}.foreign").write_bytes(b"nothing of the sort")
    before = Path.cwd()
    os.chdir(folder)
    yield names
    os.chdir(before)


def run(*arguments: str | Path, given: str | None = None) -> Result:
    return attempt(*arguments, given=given, columns=80)


def is_plain(text: str) -> bool:
    return all(line.isprintable() for line in text.split("\n"))


PIVOT = "pivot (select client_id, api from exchanges) on client_id using count(*)"
SQL = (PIVOT, "select {'a': client_id} s, [client_id] l, client_id from exchanges", f'select 1 as "={NAME}"')
COMMANDS = (
    *(["dissect", "-t", table] for table in ("batches", "connections", "findings", "errors")),
    *(["dissect", "--full"], ["dissect", "-t", "messages", "--payloads"]),
    *(["top", "--by", by] for by in ("topic", "client", "group")),
    *(["summary"], ["info"], ["groups"], ["forensics", "--bytes"], ["diff"]),
    *(["follow", port] for port in (":40000", ":40001", ":40002")),
    *(["sql", query] for query in SQL),
    *(["show", str(packet)] for packet in (4, 6, 8, 10)),
)
FORMATS = {"dissect": ("text", "json", "csv"), "sql": ("text", "json", "csv"), "show": ("",)}


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: ascii(" ".join(command))[1:25])
def test_what_is_printed_is_text_whatever_the_names(captures: list[str], command: list[str]) -> None:
    name, *options = command
    where = {
        "diff": [captures[0], captures[1]],
        "follow": [*options, *captures],
        "sql": [*captures, *options],
        "show": [f"{captures[0]}:{options[0]}"] if name == "show" else [],
    }.get(name, captures)
    given = options if where is captures else []
    for format in FORMATS.get(name, ("text", "json")):
        done = run(name, *given, *(["-f", format] if format else ["--bytes"]), *PORTS, "--", *where)
        assert done.exit_code in (exits.DONE, exits.BAD_CHECKSUMS), done.stderr
        assert done.stdout
        assert is_plain(done.stdout)
        assert is_plain(done.stderr)
        if format == "json":
            assert all(map(json.loads, done.stdout.splitlines()))
        if format == "csv":
            assert not done.stdout.startswith(('"=', "="))


def test_the_names_are_there_to_be_read(captures: list[str]) -> None:
    for table, column in (("exchanges", "client_id"), ("batches", "topic"), ("errors", "message")):
        rows = run("dissect", "-t", table, "--columns", column, "-f", "json", "-q", *PORTS, "--", *captures).stdout
        assert any(NAME in (row[column] or "") for row in map(json.loads, rows.splitlines()))
    assert SHOWN in "".join(line.strip() for line in run("info", *PORTS, "--", *captures).stdout.splitlines())


@pytest.mark.parametrize("failing", ["cast(client_id as int)", "error(client_id)"])
def test_the_prompt_says_what_is_wrong_with_a_query_as_text(captures: list[str], failing: str) -> None:
    query = f"select {failing} from exchanges where client_id is not null"
    done = run("sql", "-q", *PORTS, "--", *captures, given=query)
    assert (done.exit_code, is_plain(done.stdout)) == (exits.DONE, True)
    assert "Error" in done.stdout
    done = run("sql", "-q", *PORTS, "--", *captures, query)
    assert (done.exit_code, done.stdout, is_plain(done.stderr)) == (exits.WRONG_USAGE, "", True)


def test_what_analyze_writes_and_says_is_text(captures: list[str], tmp_path: Path) -> None:
    out = tmp_path / OUT
    done = run("analyze", "--engine", "local", "--by", "topic,client", "-o", out, *PORTS, "--", *captures)
    assert done.exit_code == exits.DONE, done.stderr
    for again in (done, run("summary", out), run("report", out), run("sql", out, "select * from t_latency")):
        assert again.exit_code == exits.DONE, again.stderr
        assert is_plain(again.stdout)
        assert is_plain(again.stderr)
    for path in (*out.glob("tables/*.csv"), out / "analysis.json", out / "forensics.jsonl"):
        assert is_plain(path.read_text(encoding="utf-8")), path.name
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "3 files from before 2000" in page
    assert "-\x1b" not in page
    assert "<b>_" not in page


@pytest.mark.usefixtures("captures")
@pytest.mark.parametrize(
    "arguments",
    [["package", "-o", f"{OUT}.tar.gz"], ["dissect", "--", f"{FILE}.foreign"], ["info", "--", f"{FILE}.missing"],
     ["show", "--", f"{FILE}.missing:3"], ["dissect", "--where", NAME, "--", f"{FILE}.foreign"],
     ["follow", "--", NAME, f"{FILE}_kafka.pcap"], [NAME], ["info", f"--{NAME}"]],
    ids=lambda arguments: ascii(arguments[0])[1:9],
)  # fmt: skip
def test_a_name_on_the_command_line_is_said_as_text(arguments: list[str]) -> None:
    done = run(*arguments)
    assert done.stdout + done.stderr
    assert is_plain(done.stdout)
    assert is_plain(done.stderr)


@pytest.mark.parametrize(
    ("name", "reason"), [("out\udcff", "path is not valid UTF-8"), ("o\\ut", "there is a backslash")]
)
@pytest.mark.parametrize("more", [[], ["--update"]], ids=["once", "update"])
def test_a_folder_that_no_query_would_find_is_refused_before_anything_is_read(
    tmp_path: Path, name: str, reason: str, more: list[str]
) -> None:
    done = run("analyze", *more, "-o", tmp_path / name, SAMPLES / "kafka-refused.pcap")
    assert done.exit_code == exits.UNREADABLE
    assert reason in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
