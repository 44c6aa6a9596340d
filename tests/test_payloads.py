"""Keys and values of messages as what they mean: by envelopes of registries, by schemas of the wire, by their form."""

import base64
import json
import struct
import threading
import uuid
import zlib
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors.errors import InputError
from pipelines.payloads import decoders, forms, pulsar, registry_traffic
from pipelines.payloads.decoders import LimitError, MisfitError, SchemaError
from pipelines.payloads.meaning import Meaning
from pipelines.payloads.messages import PayloadReader
from pipelines.payloads.pulsar import WireSchemas
from pipelines.payloads.schemas import Schemas, load
from pipelines.payloads.shown import HIDDEN, ShownFields
from tests import captures
from tests.commands import SAMPLES, attempt, objects, run
from tests.timed import Timed
from tests.wires import CLIENT, SERVER, pcap

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "item", "type": ["null", "string"]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
    ],
}
PROTO = """
syntax = "proto3";
package shop;
message Ping { int32 n = 1; }
message Order { int64 id = 1; string item = 2; message Line { string sku = 1; } repeated Line lines = 3; }
"""
ROW = {"id": 7, "item": "amber", "tags": ["a", "b"]}
TOPIC = "persistent://public/default/orders"


def avro_bytes(schema: Any, value: Any) -> bytes:
    """A value as an Avro library of its own writes it."""
    import io

    fastavro = pytest.importorskip("fastavro")
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def meaning(schemas: Schemas | None, value: bytes | None, key: bytes | None = None, topic: str = "orders") -> Meaning:
    return PayloadReader(schemas).meaning("kafka", topic, None, key, value)


def test_a_value_with_a_registrys_id_is_read_by_that_schema(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(json.dumps(ORDER))
    found = meaning(load(str(tmp_path)), b"\0" + (7).to_bytes(4, "big") + avro_bytes(ORDER, ROW))
    assert found == Meaning(None, ROW, "avro 7.avsc", None)


@pytest.mark.parametrize("packed", [False, True])
def test_a_value_with_a_uuid_of_glue_is_read_by_that_schema(tmp_path: Path, packed: bool) -> None:
    number, data = uuid.uuid4(), avro_bytes(ORDER, ROW)
    saved = {"schemas": [{"id": str(number), "schema": json.dumps(ORDER), "subject": "x", "version": 1}]}
    (tmp_path / "registry.json").write_text(json.dumps(saved))
    head = b"\x03\x05" if packed else b"\x03\0"
    value = head + number.bytes + (zlib.compress(data) if packed else data)
    assert meaning(load(str(tmp_path / "registry.json")), value).value == ROW


def test_a_value_with_an_id_of_eight_bytes_is_read_by_that_schema(tmp_path: Path) -> None:
    (tmp_path / "9.avsc").write_text(json.dumps(ORDER))
    assert meaning(load(str(tmp_path)), b"\0" + (9).to_bytes(8, "big") + avro_bytes(ORDER, ROW)).value == ROW


@pytest.mark.parametrize(
    ("indexes", "data", "expected"),
    [
        (b"\0", b"\x08\x03", {"n": 3}),
        (b"\x02\x02", b"\x08\x07\x12\x05amber", {"id": "7", "item": "amber"}),
        (b"\x04\x02\0", b"\x0a\x01x", {"sku": "x"}),
    ],
)
def test_indexes_name_the_message_of_a_protobuf_file(
    tmp_path: Path, indexes: bytes, data: bytes, expected: dict[str, Any]
) -> None:
    pytest.importorskip("grpc_tools")
    (tmp_path / "3.proto").write_text(PROTO)
    assert meaning(load(str(tmp_path)), b"\0\0\0\0\x03" + indexes + data).value == expected


def test_a_file_named_by_a_topic_is_the_schema_of_its_values_or_keys(tmp_path: Path) -> None:
    (tmp_path / "orders-value.avsc").write_text(json.dumps(ORDER))
    (tmp_path / "orders-key.avsc").write_text('"long"')
    found = meaning(load(str(tmp_path)), avro_bytes(ORDER, ROW), avro_bytes("long", 12))
    assert (found.key, found.value) == (12, ROW)


def test_schemas_of_a_registry_may_refer_to_others(tmp_path: Path) -> None:
    item = {"type": "record", "name": "Item", "fields": [{"name": "sku", "type": "string"}]}
    cart = {"type": "record", "name": "Cart", "fields": [{"name": "item", "type": "Item"}]}
    saved = [
        {"id": 1, "subject": "item", "version": 1, "schema": json.dumps(item)},
        {"id": 2, "subject": "cart", "version": 1, "schema": json.dumps(cart),
         "references": [{"name": "Item", "subject": "item", "version": 1}]},
    ]  # fmt: skip
    (tmp_path / "r.json").write_text(json.dumps(saved))
    data = avro_bytes([item, cart], {"item": {"sku": "x"}})[1:]
    assert meaning(load(str(tmp_path / "r.json")), b"\0\0\0\0\x02" + data).value == {"item": {"sku": "x"}}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b'{"a": [1, 2.5, null]}', ("json", {"a": [1, 2.5, None]})),
        (b"hello, world\n", ("text", "hello, world\n")),
        (b"\x82\xa1a\x01\xa1b\xc3", ("likely msgpack", {"a": 1, "b": True})),
        (b"\xbfaa\x01ab\xf5\xff", ("likely cbor", {"a": 1, "b": True})),
        (b"\x00\x01\x02\xff", None),
    ],
)
def test_what_tells_itself_is_read_without_a_schema(value: bytes, expected: Any) -> None:
    pytest.importorskip("msgpack")
    pytest.importorskip("cbor2")
    assert forms.guessed(value) == expected


def test_a_value_that_does_not_fit_its_schema_says_so(tmp_path: Path) -> None:
    (tmp_path / "orders.avsc").write_text(json.dumps(ORDER))
    schemas = load(str(tmp_path))
    assert "left behind" in str(meaning(schemas, avro_bytes(ORDER, ROW) + b"x").misfit)
    unfit = meaning(schemas, b"\x80")
    assert unfit.breaks_schema
    assert (unfit.schema, unfit.misfit) == ("avro orders.avsc", "at id: it ends too early, at byte 1")


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": "null"},
        {"type": "array", "items": {"type": "record", "name": "E", "fields": []}},
        {"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "array", "items": "null"}}]},
        {"type": "map", "values": {"type": "array", "items": {"type": "fixed", "name": "F", "size": 0}}},
        {"type": "nothing"},
        {"type": "record", "name": "R", "fields": "x"},
        7,
    ],
)
def test_a_hostile_schema_is_refused_in_one_line(schema: Any) -> None:
    pytest.importorskip("fastavro")
    with pytest.raises(SchemaError) as refused:
        decoders.avro(json.dumps(schema), {})
    assert "\n" not in str(refused.value)


def test_a_schema_of_many_names_that_name_each_other_is_read_at_once() -> None:
    pytest.importorskip("fastavro")
    nested: Any = "long"
    for n in range(60):
        fields = [{"name": "a", "type": nested}, {"name": "b", "type": f"R{n - 1}" if n else "long"}]
        nested = {"type": "record", "name": f"R{n}", "fields": fields}
    decoders.avro(json.dumps({"type": "array", "items": nested}), {})


@pytest.mark.parametrize("levels", [100, 1_000_000])
def test_of_any_number_of_levels_it_is_said_that_they_are_too_many(levels: int) -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    for each, end in ((schema, b"\0"), ({"type": "array", "items": schema}, b"\0\0")):
        with pytest.raises(LimitError):
            decoders.avro(json.dumps(each), {})(b"\x02" * levels + end, ())


@given(st.binary(max_size=60))
def test_any_bytes_are_a_value_or_a_misfit(data: bytes) -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]},
              {"name": "many", "type": {"type": "map", "values": "bytes"}}]}  # fmt: skip
    with suppress(MisfitError):
        json.dumps(decoders.avro(json.dumps(schema), {})(data, ()))
    found = meaning(None, data)
    assert found.misfit is None
    json.dumps(found.value)


@given(st.binary(max_size=40))
def test_any_bytes_may_stand_where_message_indexes_are_expected(data: bytes) -> None:
    try:
        indexes, rest = forms.message_indexes(data)
    except MisfitError:
        return
    assert data.endswith(rest)
    assert len(indexes) <= 32


def test_of_hidden_fields_neither_the_value_nor_the_bytes_are_shown() -> None:
    shown = ShownFields.of("customer.email,lines.price", None)
    value = {"customer": {"email": "a@b", "id": 1}, "lines": [{"price": 3, "n": 1}, {"price": 4, "n": 2}]}
    assert shown.of_value(value) == {
        "customer": {"email": HIDDEN, "id": 1},
        "lines": [{"price": HIDDEN, "n": 1}, {"price": HIDDEN, "n": 2}],
    }
    assert ShownFields.of(None, "customer.id,lines.n").of_value(value) == {
        "customer": {"id": 1},
        "lines": [{"n": 1}, {"n": 2}],
    }
    assert ShownFields.of(None, "a").of_value("a secret") == HIDDEN


def wire(kind: str, data: Any, properties: dict[str, str] | None = None) -> PayloadReader:
    """A reader that knows one schema of TOPIC, of version 3."""
    told = WireSchemas()
    body = {"type": kind, "schema_data": data,
            "properties": [{"key": key, "value": value} for key, value in (properties or {}).items()]}  # fmt: skip
    told.add([TOPIC], {"schema": body}, {"schema_version": "3"})
    return PayloadReader(None, lambda: told)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("String", b"abc", "abc"),
        ("Bool", b"\1", True),
        ("Int8", b"\xff", -1),
        ("Int16", struct.pack(">h", -2), -2),
        ("Int32", struct.pack(">i", 77), 77),
        ("Int64", struct.pack(">q", 1 << 40), 1 << 40),
        ("Float", struct.pack(">f", 1.5), 1.5),
        ("Double", struct.pack(">d", -0.25), -0.25),
        ("Timestamp", struct.pack(">q", 1_700_000_000_123), "2023-11-14T22:13:20.123000+00:00"),
        ("Instant", struct.pack(">qi", 1_700_000_000, 5), "2023-11-14T22:13:20.000000005+00:00"),
        ("LocalDate", struct.pack(">q", 19_000), "2022-01-08"),
        ("LocalTime", struct.pack(">q", 3_600_000_000_001), "01:00:00.000000001"),
        ("LocalDateTime", struct.pack(">qq", 0, 1), "1970-01-01T00:00:00.000000001"),
        ("Json", b'{"a":1}', {"a": 1}),
    ],
)
def test_pulsars_types_are_read_as_its_clients_write_them(kind: str, value: bytes, expected: Any) -> None:
    found = wire(kind, "").meaning("pulsar", TOPIC, 3, b"k", value)
    assert found == Meaning("k", expected, f"pulsar {kind} version 3")


@pytest.mark.parametrize("kind", ["Int8", "Int64", "Bool", "Instant", "LocalDateTime", "Json", "String", "Float"])
@pytest.mark.parametrize("value", [b"", b"\xff" * 3, b"\xff" * 12, b"\x7f" * 8, b"\xff" * 16])
def test_other_bytes_are_a_misfit_or_a_value(kind: str, value: bytes) -> None:
    found = wire(kind, "").meaning("pulsar", TOPIC, 3, None, value)
    assert (found.value is None) == (found.misfit is not None)


def test_a_key_value_schema_reads_both_parts_wherever_they_stand() -> None:
    properties = {"key.schema.type": "STRING", "value.schema.type": "INT32", "kv.encoding.type": "SEPARATED"}
    parts = {"key": "", "value": ""}
    found = wire("KeyValue", parts, properties).meaning("pulsar", TOPIC, 3, b"left", struct.pack(">i", 77))
    assert (found.key, found.value) == ("left", 77)
    inline = struct.pack(">i", 4) + b"left" + struct.pack(">i", 4) + struct.pack(">i", 77)
    properties["kv.encoding.type"] = "INLINE"
    found = wire("KeyValue", parts, properties).meaning("pulsar", TOPIC, 3, None, inline)
    assert found.value == {"key": "left", "value": 77}
    found = wire("KeyValue", parts, properties).meaning("pulsar", TOPIC, 3, None, inline[:-1])
    assert "are left" in str(found.misfit)


def test_a_message_of_an_unknown_version_is_read_by_its_form() -> None:
    found = wire("Int64", "").meaning("pulsar", TOPIC, 4, None, b'{"a":1}')
    assert found == Meaning(None, {"a": 1}, "json")


@captures.needs_captures
def test_schemas_of_real_clients_read_what_they_sent() -> None:
    path = str(captures.captures("pulsar") / "java_schema.pcap")
    rows = objects("dissect", path, "-t", "messages", "--payloads")
    produced = {(row["topic"].rpartition("/")[2], row["position"]): row for row in rows if row["role"] == "produce"}
    for name in ("jsc-json", "jsc-avro"):
        values = [row["value_json"] for (topic, _), row in produced.items() if topic == name]
        items = ["amber", "basil", "cedar", "delta"]
        assert values[:4] == [{"id": n, "item": item, "price": 1.5 * n} for n, item in enumerate(items)]
    [pair] = [row for (topic, _), row in produced.items() if topic == "jsc-kv"]
    assert (pair["key_json"], pair["value_json"], pair["schema"]) == ("left", 77, "pulsar KeyValue version 0")
    assert not any(row["misfit"] for row in rows)


@captures.needs_captures
def test_nothing_is_shown_of_messages_that_nobody_asked_for() -> None:
    path = str(captures.captures("pulsar") / "java_schema.pcap")
    assert "is for --payloads" in run("dissect", path, "-t", "messages", "--schemas", ".", "-q", code=2)
    hidden = run("dissect", path, "-t", "messages", "--payloads", "--redact", "item", "-f", "json", "-q")
    assert "amber" not in hidden
    assert "YW1iZXI" not in hidden
    assert HIDDEN in hidden


class _Registry(BaseHTTPRequestHandler):
    """Answers as a registry does; at /moved it sends on."""

    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        self.send_response(302 if "moved" in self.path else 200)
        self.send_header("Location", "/schemas")
        self.end_headers()
        listed = [{"id": 7, "subject": "orders-value", "version": 1, "schema": json.dumps(ORDER), "other": 1}]
        self.wfile.write(json.dumps(listed).encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def registry() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), _Registry)
    _Registry.asked = []
    running = threading.Thread(target=server.serve_forever, daemon=True)
    running.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    running.join()
    server.server_close()


def test_what_a_registry_knows_is_saved_and_read_again(registry: str, tmp_path: Path) -> None:
    out = tmp_path / "registry.json"
    done = attempt("schemas", "save", f"http://me:s3cret@{registry}/", "-o", out)
    assert done.exit_code == 0, done.stderr
    assert _Registry.asked == [("/schemas", "Basic bWU6czNjcmV0")]
    assert "s3cret" not in out.read_text() + done.stderr
    assert meaning(load(str(out)), b"\0\0\0\0\x07" + avro_bytes(ORDER, ROW)).value == ROW


def test_credentials_follow_nobody_who_sends_on(registry: str, tmp_path: Path) -> None:
    said = run("schemas", "save", f"http://me:s3cret@{registry}/moved", "-o", tmp_path / "r.json", code=3)
    assert len(_Registry.asked) == 1
    assert "s3cret" not in said


@pytest.mark.parametrize("text", ["", "[]", "{", '{"schemas": [{"id": 1}]}', '{"schemas": 7}', "[" * 100_000])
def test_a_file_that_is_no_saved_registry_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "r.json").write_text(text)
    with pytest.raises(InputError):
        load(str(tmp_path / "r.json"))


def test_bodies_without_a_schema_tell_none() -> None:
    for body in (None, {}, {"schema": None}, {"schema": {"type": "AutoConsume"}}, {"schema": 7}):
        told = pulsar.told([{"topics": [TOPIC], "request": json.dumps(body), "response": None}])
        assert told.meaning(TOPIC, None, None, b"x") is None


def committed(group: bytes, topic: bytes, partition: int) -> bytes:
    sized = b"".join(len(each).to_bytes(2, "big") + each for each in (group, topic))
    return (1).to_bytes(2, "big") + sized + partition.to_bytes(4, "big")


def test_a_committed_offset_in_its_topic_is_read() -> None:
    value = struct.pack(">hqih", 3, 30, -1, 0) + struct.pack(">q", 1_700_000_000_000)
    found = meaning(None, value, committed(b"billing", b"orders", 2), "__consumer_offsets")
    assert found.schema == "kafka OffsetCommit"
    assert found.key == {"group": "billing", "topic": "orders", "partition": 2}
    assert found.value == {"offset": 30, "leaderEpoch": -1, "metadata": "", "commitTimestamp": 1_700_000_000_000}
    assert meaning(None, None, committed(b"g", b"t", 0), "__consumer_offsets").value is None


def test_a_transactions_state_in_its_topic_is_read() -> None:
    key = b"\0\0\0\5tx-id"
    value = struct.pack(">hqhiB", 0, 9, 1, 60_000, 4) + struct.pack(">i", -1) + struct.pack(">qq", 1, 2)
    found = meaning(None, value, key, "__transaction_state")
    assert (found.schema, found.key, found.misfit) == ("kafka TransactionLog", {"transactionalId": "tx-id"}, None)
    assert found.value["producerId"] == 9


@given(st.sampled_from(["__consumer_offsets", "__transaction_state", "__share_group_state"]), st.binary(max_size=40),
       st.none() | st.binary(max_size=40))  # fmt: skip
def test_any_bytes_may_lie_in_an_internal_topic(topic: str, key: bytes, value: bytes | None) -> None:
    found = meaning(None, value, key, topic)
    json.dumps([found.key, found.value])
    assert found.misfit is None or "\n" not in found.misfit


@captures.needs_captures
def test_offsets_of_a_real_broker_are_read() -> None:
    path = str(captures.captures("kafka") / "zk282-any-cluster.pcap")
    query = "select schema, misfit, key_json ->> '$.topic' as topic, value_json ->> '$.offset' as at from messages "
    rows = objects("sql", path, "--payloads", f"{query} where topic = '__consumer_offsets'")
    assert {row["schema"] for row in rows} == {"kafka OffsetCommit", "kafka GroupMetadata"}
    assert not any(row["misfit"] for row in rows)
    assert {(row["topic"], row["at"]) for row in rows if row["topic"]} == {("zct-none", "30"), ("zct-gzip", "30")}


def exchange(request: bytes, answer: bytes, *, chunked: bool = False) -> tuple[bytes, bytes]:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    if chunked:
        parts = [answer[:5], answer[5:]]
        body = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
        return request, head + b"Transfer-Encoding: chunked\r\n\r\n" + body
    return request, head + b"Content-Length: %d\r\n\r\n" % len(answer) + answer


def test_schemas_are_told_by_captured_traffic_with_a_registry(tmp_path: Path) -> None:
    text = json.dumps({"schema": json.dumps(ORDER)}).encode()
    post = b"POST /subjects/orders-value/versions HTTP/1.1\r\nHost: r\r\nContent-Length: %d\r\n\r\n" % len(text) + text
    wired = Timed()
    at = 0
    for request, answer in (
        exchange(b"GET /schemas/ids/7 HTTP/1.1\r\nHost: r\r\n\r\n", text, chunked=True),
        exchange(post, b'{"id": 8}'),
        exchange(b"GET /other HTTP/1.1\r\nHost: r\r\n\r\n", b"[]"),
    ):
        wired.send(at := at + 1, CLIENT, request).send(at := at + 1, SERVER, answer)
    (tmp_path / "registry.pcap").write_bytes(pcap(wired.packets, nano=True))
    out = tmp_path / "registry.json"
    run("schemas", "save", tmp_path / "registry.pcap", "-o", out)
    for number in (7, 8):
        assert meaning(load(str(out)), b"\0" + number.to_bytes(4, "big") + avro_bytes(ORDER, ROW)).value == ROW
    assert load(str(out)).of_topic("orders", "value") is not None


def test_captures_without_a_registry_tell_no_schemas(tmp_path: Path) -> None:
    sample = str(SAMPLES / "kafka-codecs.pcap")
    said = run("schemas", "save", sample, "-o", tmp_path / "r.json", code=3)
    assert said == f"brokerscope: {sample}: no schemas in there\n"


HTTP_PIECES = [
    b"GET /schemas HTTP/1.1\r\n\r\n", b"HTTP/1.1 200 OK\r\n", b"Content-Length: 9\r\n\r\n", b'[{"id":1,"schema":"x"}]',
    b"\0", b"-1\r\n", b"Transfer-Encoding: chunked\r\n\r\n", b"fffffff\r\n",
]  # fmt: skip


@given(st.lists(st.sampled_from(HTTP_PIECES)))
def test_any_bytes_may_stand_in_traffic_with_a_registry(parts: list[bytes]) -> None:
    list(registry_traffic._told(b"".join(parts), b"".join(reversed(parts))))


def test_a_native_protobuf_schema_carries_its_own_descriptors(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc")
    (tmp_path / "shop.proto").write_text(PROTO)
    out = tmp_path / "shop.desc"
    assert protoc.main(["protoc", f"-I{tmp_path}", f"--descriptor_set_out={out}", str(tmp_path / "shop.proto")]) == 0
    told = {
        "fileDescriptorSet": base64.b64encode(out.read_bytes()).decode(),
        "rootMessageTypeName": "shop.Order",
        "rootFileDescriptorName": "shop.proto",
    }
    reader = wire("ProtobufNative", json.dumps(told))
    found = reader.meaning("pulsar", TOPIC, 3, None, b"\x08\x07\x12\x05amber")
    assert found == Meaning(None, {"id": "7", "item": "amber"}, "pulsar ProtobufNative version 3")
    assert reader.meaning("pulsar", TOPIC, 3, None, b"\xff").misfit is not None
    assert wire("ProtobufNative", "{}").meaning("pulsar", TOPIC, 3, None, b"").misfit is not None


def test_each_message_is_read_by_the_version_that_it_names() -> None:
    rows = [
        {"topics": [TOPIC], "request": json.dumps({"schema": {"type": kind, "schema_data": ""}}),
         "response": json.dumps({"schema_version": version})}
        for version, kind in ((0, "Int32"), (1, "String"))
    ]  # fmt: skip
    reader = PayloadReader(None, lambda: pulsar.told(rows))
    values = [reader.meaning("pulsar", TOPIC, version, None, b"\0\0\0A").value for version in (0, 1, None)]
    assert values == [65, "\0\0\0A", 65]
