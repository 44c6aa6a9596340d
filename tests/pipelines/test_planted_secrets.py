"""A marker is planted in every field that can carry a secret; no output of any command holds it."""

import base64
import random
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow.parquet as pq
import pytest

import dissectors
from dissectors.iggy import PROTOCOL as IGGY
from dissectors.iggy import secrets as iggy_secrets
from dissectors.iggy import tables as iggy_tables
from dissectors.iggy.layouts import REQUEST, RESPONSE, BodyField, versions
from dissectors.kafka import schema
from dissectors.kafka.schema import MessageSchema, SchemaField
from dissectors.kafka.secrets import SECRET_FIELDS, SETTINGS, TEXT_FIELDS
from dissectors.records import TABLES
from pipelines.answers import annotate
from tests.commands import attempt
from tests.fuzz.seeds import CLIENT, SERVER, FrameOnWire, on_wire
from tests.iggy import wire as iggy
from tests.iggy.eras import ERAS
from tests.kafka import wire as kafka
from tests.kafka.encoder import Encoder
from tests.pulsar import wire as pulsar
from tests.pulsar.test_secrets import PLANTED, QUOTED
from tests.wires import pcap

MARKER = b"pl4nted-m4rker"  # tests/pulsar/test_secrets.py plants the same
PAYLOAD = b"zq4x-vk7w-jh2p-9d"
CLUSTER_LOG = "__cluster_metadata"
REASONS = ("JoinGroupRequest", "LeaveGroupRequest")  # a client says why, in words of its own
Script = list[tuple[int, Any]]


def hidden_in(text: bytes, marker: bytes = MARKER) -> bool:
    """Whether a text holds the marker: as it is, in hexadecimal, or in base64 wherever it begins."""
    shown = [marker, marker.hex().encode(), marker.hex(" ").encode(), " ".join(marker.decode()).encode()]
    shown += [base64.b64encode(bytes(skip) + marker)[4 if skip else 0 : -4] for skip in range(3)]
    return any(form in text for form in shown)


def a_part_in(text: bytes) -> bool:
    """Whether a text holds six bytes of the payload on end, as they are or in hexadecimal."""
    parts = [PAYLOAD[at : at + 6] for at in range(len(PAYLOAD) - 5)]
    spaced = [part.hex("|").replace("|", "  ") for part in parts]
    forms = [*parts, *(part.hex().encode() for part in parts), *(part.encode() for part in spaced)]
    return any(form in text for form in forms)


# --- what is planted -------------------------------------------------------------------------------------------------


class Planting(Encoder):
    """Bodies in which every secret is the marker, and every list has one element."""

    def field(self, field: SchemaField) -> tuple[Any, bytes]:
        if field.array:
            return [], self.length(1, "i") + self.one(field)[1]
        if field.struct and self.version in field.nullable:
            return {}, b"\1" + self.struct(field.fields)[1]
        return self.one(field)

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        key, value = SETTINGS.get(self.message.name, ("", ""))
        planted = None
        if field.name in SECRET_FIELDS.get(self.message.name, ()) or field.name == value:
            planted = MARKER
        elif field.name in TEXT_FIELDS:
            planted = b"token=" + MARKER
        elif field.type == "string":
            planted = b"ssl.keystore.password" if field.name == key else b"name"
        if planted is None or field.array or field.type not in ("string", "bytes"):
            return super().one(field)
        return "", self.length(len(planted), "h" if field.type == "string" else "i") + planted


OF_DONE: dict[str, tuple[Any, bytes]] = {
    "errorCode": (0, b"\0\0"),
    "validateOnly": (False, b"\0"),
    "resourceType": (2, b"\2"),  # a topic
}


class Accepted(Planting):
    """The same of a request that asks for a change of a topic, and of an answer that says that it was done."""

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        return OF_DONE.get(field.name) or super().one(field)


def planted(name: str, version: int, encoder: type[Planting] = Planting) -> bytes:
    return encoder(schema.message(name), version, random.Random(1), unknown_tags=False).body()[1]


def bodies(message: MessageSchema, encoder: type[Planting] = Planting) -> Iterator[tuple[int, bytes, bytes]]:
    """(version, request, response) of an API, each with markers."""
    api = message.name.removesuffix("Request").removesuffix("Response")
    every = list(schema.message(f"{api}Request").versions.each())
    for version in sorted({every[0], every[len(every) // 2], every[-1]}):
        yield version, planted(f"{api}Request", version, encoder), planted(f"{api}Response", version, encoder)


def record(name: str) -> bytes:
    """A record of the log of the controllers."""
    message = schema.message(name)
    assert message.key is not None
    return bytes([1, message.key, 0]) + planted(name, 0)


def kafka_scripts() -> dict[str, Script]:
    scripts: dict[str, Script] = {}
    for name in sorted({*SECRET_FIELDS, *SETTINGS, *REASONS}):
        message = schema.message(name)
        if message.kind not in ("request", "response") or message.key is None:
            continue
        for version, ask, answer in bodies(message):
            call = [
                (CLIENT, kafka.request(message.key, version, 5, ask)),
                (SERVER, kafka.response(message.key, version, 5, answer)),
            ]
            scripts[f"{name} v{version}"] = call
            scripts[f"{name} v{version}, cut"] = [(CLIENT, call[0][1][:-3])]
        for version, ask, answer in bodies(message, Accepted):
            scripts[f"{name} v{version}, done"] = [
                (CLIENT, kafka.request(message.key, version, 5, ask)),
                (SERVER, kafka.response(message.key, version, 5, answer)),
            ]
    plain, misplaced = b"\0user\0" + MARKER, b"user\0" + MARKER + b"\0"
    scram, bearer = b"n,,n=user,r=" + MARKER, b"n,,\1auth=Bearer " + MARKER + b"\1\1"
    for i, login in enumerate((plain, misplaced, scram, bearer)):
        sized = struct.pack(">i", len(login)) + login
        scripts[f"login {i}"] = [
            (CLIENT, kafka.request(36, 1, 5, sized)),
            (SERVER, kafka.response(36, 1, 5, struct.pack(">hhi", 58, -1, len(MARKER)) + MARKER + bytes(8))),
        ]
        scripts[f"login {i} without a header"] = [
            (CLIENT, kafka.request(17, 0, 5, kafka.text("PLAIN"))),
            (SERVER, kafka.response(17, 0, 5, struct.pack(">hi", 0, 1) + kafka.text("PLAIN"))),
            (CLIENT, sized),
            (SERVER, struct.pack(">i", len(MARKER)) + MARKER),
        ]
    inner = kafka.request(51, 0, 9, planted("AlterUserScramCredentialsRequest", 0))[4:]
    scripts["in an envelope"] = [
        (CLIENT, kafka.request(58, 0, 5, kafka.uvarint(len(inner) + 1) + inner + b"\0" + b"\5\x7f\0\0\1" + b"\0")),
        (SERVER, kafka.response(58, 0, 5, b"\0" + struct.pack(">h", 0) + b"\0")),
    ]
    records = [record("ConfigRecord"), record("UserScramCredentialRecord")]
    log = kafka.batch([kafka.record(delta, None, value) for delta, value in enumerate(records)])
    broken = log[:-2] + bytes([log[-2] ^ 1]) + log[-1:]
    for name, sets in (("the log of the controllers", log), ("the same, broken", broken)):
        scripts[name] = [
            (CLIENT, kafka.fetch(5, [(CLUSTER_LOG, [0])])),
            (SERVER, kafka.fetched(5, {(CLUSTER_LOG, 0): sets})),
        ]
    carried = kafka.batch([kafka.record(0, PAYLOAD, PAYLOAD, [(b"h", PAYLOAD)])])
    broken = carried[:-20] + bytes([carried[-20] ^ 1]) + carried[-19:]
    for name, sets, code in (("messages", carried, 0), ("broken messages", broken, 2)):
        scripts[name] = [(CLIENT, kafka.produce(5, {("t", 0): sets})), (SERVER, kafka.produced(5, [("t", 0, code, 1)]))]
    return scripts


def pulsar_scripts() -> dict[str, Script]:
    opened = [(CLIENT, pulsar.connect()), (SERVER, pulsar.connected())]
    scripts: dict[str, Script] = {name: [*opened, *script] for name, script in (PLANTED | QUOTED).items()}
    carried = pulsar.metadata(1, (6, PAYLOAD), (4, [(1, "colour"), (2, PAYLOAD)]))
    entry = pulsar.entry(carried, PAYLOAD)
    broken = entry[:-3] + bytes([entry[-3] ^ 1]) + entry[-2:]
    scripts["messages"] = [*opened, (CLIENT, pulsar.send(1, entry)), (SERVER, pulsar.delivery(entry))]
    scripts["broken messages"] = [*opened, (CLIENT, pulsar.send(1, broken)), (SERVER, pulsar.refusal(1))]
    return scripts


def iggy_scripts() -> dict[str, Script]:
    marker = MARKER.decode()
    scripts: dict[str, Script] = {}
    asked = {
        "login": (38, iggy.login(password=marker, version="9")),
        "old login": (38, iggy.login(password=marker)),
        "login with a token": (44, iggy.str8(marker)),
        "new user": (33, iggy.str8("ann") + iggy.str8(marker) + b"\1\0"),
        "new password": (37, iggy.name("ann") + iggy.str8(marker) + iggy.str8(marker)),
    }
    for era in ("iggy-0.4", "iggy-0.7"):
        for name, (code, body) in asked.items():
            for cut in (0, 1, 5):
                script = [(CLIENT, iggy.request(code, body[: len(body) - cut])), (SERVER, iggy.OK)]
                scripts[f"{era} {name}, {cut} bytes short"] = [*ERAS[era], *script]
        made = [(CLIENT, iggy.request(42, iggy.str8("ci") + bytes(8))), (SERVER, iggy.answer(iggy.str8(marker)))]
        scripts[f"{era} a token is made"] = [*ERAS[era], *made]
        refused = [(CLIENT, iggy.request(1)), (SERVER, iggy.refusal(3, f"token={marker} is refused"))]
        scripts[f"{era} an error that quotes a token"] = [*ERAS[era], *refused]
    for minor in (11, 12):
        secret = (MARKER * 3)[:32] if minor > 11 else b""
        head = struct.pack("<I", minor << 10) + iggy.str8("go") + iggy.str8("1") + secret
        for name, body in (
            ("a token", head + iggy.str8(marker) + iggy.str32("")),
            ("a token and a context", head + iggy.str8(marker) + iggy.str32("x" * 20)),
            ("a password", head + iggy.str8("iggy") + iggy.str8(marker) + iggy.str32("")),
        ):
            for cut in (0, 2, 4, 9):
                frame = iggy.vsr_request(1, body[: len(body) - cut], id=0)
                scripts[f"vsr {minor} {name}, {cut} bytes short"] = [(CLIENT, frame), (SERVER, iggy.eviction(9))]
                whole = iggy.vsr_request(1, body, id=0)
                scripts[f"vsr {minor} {name}, {cut} bytes lost"] = [(CLIENT, whole[: len(whole) - cut])]
    keyed = b"\3" + iggy.str8(PAYLOAD.decode())
    sent = iggy.send_b([PAYLOAD], size=64, headers=iggy.header_typed("k", 2, PAYLOAD), to=keyed)
    poll = iggy.polled(iggy.poll_b([PAYLOAD], size=64, kind="xxh3"), 1)
    broken = poll[:-3] + bytes([poll[-3] ^ 1]) + poll[-2:]
    polled = (CLIENT, iggy.request(100, iggy.poll_06()))
    scripts["messages"] = [*ERAS["iggy-0.7"], (CLIENT, iggy.request(101, sent)), (SERVER, iggy.OK)]
    answers = [polled, (SERVER, iggy.answer(broken)), polled, (SERVER, iggy.answer(poll))]
    scripts["broken messages"] = [*ERAS["iggy-0.7"], *answers]
    return scripts


SCRIPTS = {"kafka": (9092, kafka_scripts), "pulsar": (6650, pulsar_scripts), "iggy": (8090, iggy_scripts)}


class PlantedCapture(NamedTuple):
    """A capture with a connection for each script."""

    path: Path
    connections: int


@pytest.fixture(scope="module", params=list(SCRIPTS))
def capture(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> PlantedCapture:
    port, scripts = SCRIPTS[request.param]
    frames = []
    made = scripts()
    for number, script in enumerate(made.values()):
        for step, (direction, data) in enumerate(script):
            frames.append(FrameOnWire(number, direction, 1_700_000_000_000_000_000 + step * 1_000_000, data))
    path = tmp_path_factory.mktemp(request.param) / "planted.pcap"
    path.write_bytes(pcap(on_wire(frames, port)))
    return PlantedCapture(path, len(made))


# --- where it may not be ---------------------------------------------------------------------------------------------


def printed(*arguments: object) -> bytes:
    """What a command prints, to both streams."""
    done = attempt(*arguments, columns=10000)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.output.encode() + (done.stderr_bytes or b"")


def rows(path: Path | str, **more: Any) -> bytes:
    found = dissectors.dissect(path, list(TABLES), **more)
    assert found["exchanges"].num_rows
    return repr({name: table.to_pylist() for name, table in found.items()}).encode()


def test_no_row_holds_a_secret(capture: PlantedCapture) -> None:
    text = rows(capture.path, full=True, payloads=True)
    assert not hidden_in(text)
    assert hidden_in(text, PAYLOAD)  # which was asked for
    assert text.count(b"<redacted>") > capture.connections // 3
    assert not hidden_in(rows(capture.path, full=True), PAYLOAD)


def test_events_are_told_without_the_secrets_of_settings_and_reasons(capture: PlantedCapture) -> None:
    """Of Kafka: other protocols' events have no texts of users."""
    events = dissectors.dissect(capture.path, ["events"])["events"].to_pylist()
    assert events
    texts: dict[str, set[str]] = {}
    for event in events:
        texts.setdefault(event["kind"], set()).add(event["text"] or "")
    if capture.path.parent.name.startswith("kafka"):
        for kind in ("created", "altered", "left", "joined", "status"):
            assert any("<redacted>" in text for text in texts.get(kind, ())), (kind, texts.get(kind))
    assert not hidden_in(repr(texts).encode())


def test_every_connection_is_understood(capture: PlantedCapture) -> None:
    table = dissectors.dissect(capture.path, "connections")["connections"]
    assert table.num_rows == capture.connections
    assert set(table["protocol"].to_pylist()) <= {capture.path.parent.name.rstrip("0123456789"), None}
    assert table["protocol"].to_pylist().count(None) <= capture.connections // 5


@pytest.mark.parametrize(
    "arguments",
    [
        *[("dissect", "--table", table, "--format", format) for table in TABLES for format in ("text", "json", "csv")],
        ("dissect", "--full", "--format", "json"),
        ("dissect", "--table", "messages", "--payloads", "--format", "json"),
        ("summary",),
        ("info", "--format", "json"),
        ("groups",),
        ("groups", "--lag"),
        ("transactions",),
        ("audit",),
        ("top", "--by", "client"),
        ("top", "--causes"),
        ("sql",),
        ("forensics", "--bytes"),
        ("forensics", "--bytes", "--format", "json"),
    ],
    ids=" ".join,
)
def test_no_command_prints_a_secret(capture: PlantedCapture, arguments: tuple[str, ...]) -> None:
    command, *options = arguments
    more = ["select * from exchanges"] if command == "sql" else []
    text = printed(command, capture.path, *more, *options)
    assert text or "stalls" in options  # nothing held these connections back
    assert not hidden_in(text)
    if "--payloads" not in arguments and "--bytes" not in arguments:
        assert not hidden_in(text, PAYLOAD)


def test_forensics_shows_messages_with_bytes_only(capture: PlantedCapture) -> None:
    assert not a_part_in(printed("forensics", capture.path))
    assert not a_part_in(printed("forensics", capture.path, "--format", "json"))
    assert a_part_in(printed("forensics", capture.path, "--bytes"))
    assert a_part_in(printed("forensics", capture.path, "--format", "json", "--bytes"))


def test_no_evidence_holds_a_secret(capture: PlantedCapture, tmp_path: Path) -> None:
    printed("forensics", capture.path, "--extract", tmp_path / "evidence")
    files = list((tmp_path / "evidence").iterdir())
    assert files
    assert not [path for path in files if hidden_in(path.read_bytes())]


def test_no_exchange_is_shown_with_a_secret(capture: PlantedCapture) -> None:
    """Every tenth packet with a payload, byte by byte where it may be."""
    table = dissectors.dissect(capture.path, ["exchanges", "connections"])
    packets = {p for c in ("request_packet", "response_packet") for p in table["exchanges"][c].to_pylist() if p}
    for packet in sorted(packets)[::10]:
        assert not hidden_in(printed("show", f"{capture.path}:{packet}", "--bytes", "--jobs", 1))
    for connection in table["connections"]["connection"].to_pylist()[::10]:
        assert not hidden_in(printed("follow", connection, capture.path))


def test_no_comment_holds_a_secret(capture: PlantedCapture) -> None:
    tables = dissectors.dissect(capture.path, annotate.TABLES)
    assert not hidden_in(repr(annotate.comments(tables, str(capture.path))).encode())


def test_nothing_that_analyze_leaves_holds_a_secret(
    capture: PlantedCapture, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "tmp"))
    text = printed("analyze", capture.path, "-o", tmp_path / "out", "--engine", "local")
    assert not hidden_in(text)
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"report.html", "forensics.jsonl"} <= {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        if path.suffix == ".parquet":
            content += repr(pq.ParquetFile(path).read().to_pylist()).encode()
        assert not hidden_in(content), path
        assert not hidden_in(content, PAYLOAD), path
        assert not a_part_in(content), path


# --- the tables ------------------------------------------------------------------------------------------------------


def test_every_secret_type_of_a_layout_is_in_the_table_of_iggy_and_back() -> None:
    found: dict[str, set[str]] = {}
    for name in IGGY.credentials().apis:
        for layout in (*versions(REQUEST, name), *versions(RESPONSE, name)):
            for field in layout.fields:
                if field.type.startswith("secret"):
                    found.setdefault(name, set()).add(field.name)
    assert found == {name: set(fields) for name, fields in iggy_secrets.SECRET_FIELDS.items()}


def test_every_command_of_iggy_with_options_may_carry_a_credential() -> None:
    def has_options(fields: Sequence[BodyField]) -> bool:
        return any(field.type.startswith("options") or has_options(field.fields) for field in fields)

    names = {command.name for commands in iggy_tables.commands().values() for command in commands}
    layouts = {name: (*versions(REQUEST, name), *versions(RESPONSE, name)) for name in names}
    found = {name for name in names if any(has_options(layout.fields) for layout in layouts[name])}
    assert {"CREATE_TOPIC", "GET_STREAMS"} <= found <= IGGY.credentials().apis


def test_every_field_in_the_tables_of_kafka_is_in_the_schema() -> None:
    def names(fields: tuple[SchemaField, ...]) -> Iterator[str]:
        for field in fields:
            yield field.name
            yield from names(field.fields)

    for table in (SECRET_FIELDS, SETTINGS):
        for message, fields in table.items():
            assert set(fields) <= set(names(schema.message(message).fields))


def test_every_field_of_kafka_whose_name_speaks_of_a_secret_is_in_the_table() -> None:
    words = ("hmac", "password", "secret", "auth", "storedkey", "serverkey")

    def speaking(message: str, fields: tuple[SchemaField, ...]) -> Iterator[tuple[str, str]]:
        for field in fields:
            if field.type == "bytes" and any(word in field.name.lower() for word in words):
                yield message, field.name
            yield from speaking(message, field.fields)

    for name in schema.messages():
        for message, field in speaking(name, schema.message(name).fields):
            assert field in SECRET_FIELDS[message]


# --- names of files --------------------------------------------------------------------------------------------------


def test_a_password_in_the_url_of_a_capture_reaches_no_output(tmp_path: Path) -> None:
    import fsspec

    url = f"memory://user:{MARKER.decode()}@host/samples/kafka-refused.pcap?sig={MARKER.decode()}"
    sample = Path(__file__).parent.parent.parent / "samples" / "kafka-refused.pcap"
    filesystem, inside = fsspec.core.url_to_fs(url)
    filesystem.pipe_file(inside, sample.read_bytes())
    assert not hidden_in(rows(url))
    for arguments in (
        ("dissect", url, "--format", "json"), ("info", url), ("summary", url), ("show", f"{url}:20"),
        ("dissect", url + "-gone"), ("forensics", url), ("annotate", url, "-o", tmp_path / "x.pcapng"),
        ("analyze", url, "-o", tmp_path / "out", "--engine", "local"),
    ):  # fmt: skip
        assert not hidden_in(printed(*arguments)), arguments
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or not hidden_in(path.read_bytes()), path
