"""Messages that do not fit their schema, on the samples with schemas: who is told, and that nothing of them is."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import brokerscope
from pipelines.payloads import decoders
from pipelines.payloads.decoders import LimitError, MisfitError, SchemaError, json_schema
from pipelines.payloads.messages import PayloadReader
from pipelines.payloads.schemas import load
from pipelines.payloads.shown import as_json
from tests.commands import SAMPLES, objects, run

KAFKA, PULSAR = str(SAMPLES / "kafka-schemas.pcap"), str(SAMPLES / "pulsar-schemas.pcap")
SECRETS = ("plenty", "Customer", "amber", "example.org")  # in values of the sample
Row = dict[str, Any]


@pytest.fixture(scope="module")
def registry(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What the sample tells of the registry that its clients asked."""
    pytest.importorskip("fastavro")
    pytest.importorskip("jsonschema_rs")
    out = tmp_path_factory.mktemp("registry") / "registry.json"
    run("schemas", "save", KAFKA, "-o", out)
    return str(out)


def test_every_value_is_what_the_client_sent(registry: str) -> None:
    sent = json.loads(Path(KAFKA).with_suffix(".json").read_text())["messages"]
    for role in ("produce", "consume"):
        query = f"select topic, key_json, value_json, misfit from messages where role = '{role}'"
        read = {(row["topic"], str(row["key_json"])): row for row in objects(
            "sql", KAFKA, "--payloads", "--schemas", registry, query)}  # fmt: skip
        assert len(read) == len(sent)
        for each in sent:
            row = read[each["topic"], each["key"]]
            assert (row["value_json"], row["misfit"] is None) == (each["value"], each["fits"]), row


def test_values_of_pulsar_are_read_by_the_schemas_on_the_wire() -> None:
    pytest.importorskip("fastavro")
    read = {(row["topic"], row["position"]): row["value_json"] for row in objects(
        "sql", PULSAR, "--payloads", "select topic, position, value_json from messages")}  # fmt: skip
    for each in json.loads(Path(PULSAR).with_suffix(".json").read_text())["messages_sample"]:
        value = read[each["topic"], f"{each['ledger']}:{each['entry']}"]
        assert value == (json.loads(each["value"]) if each["value"].startswith("{") else each["value"])


def test_each_message_that_does_not_fit_is_a_finding_that_quotes_nothing(registry: str) -> None:
    found = objects("dissect", KAFKA, "-t", "findings", "--payloads", "--schemas", registry)
    assert {row["kind"] for row in found} == {"payload_schema_mismatch"}
    assert sorted(row["packet"] for row in found if row["direction"] == "client") == [128, 129, 133, 192]
    assert len([row for row in found if row["direction"] == "server"]) == 4
    assert any(row["message"].endswith("stock-value (id 105): at left: not what `type` in the schema allows.")
               for row in found)  # fmt: skip
    assert not any(secret in json.dumps(found) for secret in SECRETS)
    events = objects("sql", KAFKA, "--payloads", "--schemas", registry, "select * from events where kind = 'misfit'")
    assert {row["subject"] for row in events} == {"avro orders-value (id 101)", "json stock-value (id 105)"}


def test_a_verdict_says_since_when_whose_and_how_many(registry: str) -> None:
    [summary] = objects("summary", KAFKA, "--schemas", registry)
    told = [verdict for verdict in summary["verdicts"] if verdict["kind"] == "schema_left"]
    assert [verdict["sentence"] for verdict in told] == [
        "3 of 3 messages that importer on 127.0.0.1 wrote to topic orders since 16:52:37 do not fit "
        "avro orders-value (id 101).",
        "1 of 5 messages that shop on 127.0.0.1 wrote to topic stock since 16:52:38 does not fit "
        "json stock-value (id 105).",
    ]
    assert not any(secret in json.dumps(summary) for secret in SECRETS)
    of_readers = objects("sql", KAFKA, "--payloads", "--schemas", registry, "--since", "16:52:40",
                      "select sentence from t_verdicts where kind = 'schema_left'")  # fmt: skip
    assert sorted(row["sentence"] for row in of_readers) == [
        "1 of 5 messages that billing on 127.0.0.1 read from topic stock since 16:52:41 does not fit "
        "json stock-value (id 105).",
        "3 of 4 messages that billing on 127.0.0.1 read from topic orders since 16:52:41 do not fit "
        "avro orders-value (id 101).",
    ]


def test_without_schemas_nothing_is_judged_by_them(registry: str) -> None:
    [summary] = objects("summary", KAFKA)
    assert "schema_left" not in {verdict["kind"] for verdict in summary["verdicts"]}
    assert objects("dissect", PULSAR, "-t", "findings", "--payloads") == objects("dissect", PULSAR, "-t", "findings")


def test_an_analysis_by_schemas_keeps_verdicts_and_no_message(registry: str, tmp_path: Path) -> None:
    run("analyze", KAFKA, "--schemas", registry, "-o", str(tmp_path / "out"))
    kinds = [row["kind"] for row in objects("sql", str(tmp_path / "out"), "select kind from t_verdicts")]
    assert kinds.count("schema_left") == 2
    assert not (tmp_path / "out" / "records" / "messages").exists()
    written = b"".join(file.read_bytes() for file in (tmp_path / "out").rglob("*") if file.is_file())
    assert not any(secret.encode() in written for secret in SECRETS)
    assert "without --update" in run("analyze", KAFKA, "--payloads", "--update", "-o", tmp_path / "out", code=2)


def test_follow_shows_messages_where_they_are_asked_for(registry: str) -> None:
    shown = run("follow", KAFKA, ":48780", "--payloads", "--schemas", registry)
    assert "key order-12" in shown
    assert "(does not fit avro" in shown
    hidden = json.dumps(objects("follow", KAFKA, ":48764", "--payloads", "--schemas", registry, "--redact", "customer"))
    assert "redacted" in hidden
    assert "Customer" not in hidden
    assert "order-6" not in run("follow", KAFKA, ":48764")


def test_python_has_the_same_findings_and_verdicts(registry: str) -> None:
    with brokerscope.open(KAFKA, payloads=True, schemas=registry) as capture:
        assert len(capture.findings.where(kind="payload_schema_mismatch")) == 8
        assert [verdict.kind for verdict in capture.verdicts()].count("schema_left") == 2
        assert len(capture.messages) == 60


STOCK = {"type": "object", "properties": {"where": {"properties": {"shelf": {"type": "string"}}}}, "required": ["id"]}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"id": 1}, None),
        ({"where": {}}, "not what `required` in the schema allows"),
        ({"id": 1, "where": {"shelf": 7}}, "at where.shelf: not what `type` in the schema allows"),
    ],
)
def test_json_is_checked_by_its_schema(value: Row, reason: str | None) -> None:
    pytest.importorskip("jsonschema_rs")
    decode = json_schema(json.dumps(STOCK), {})
    if reason is None:
        assert decode(json.dumps(value).encode(), ()) == value
        return
    with pytest.raises(MisfitError) as raised:
        decode(json.dumps(value).encode(), ())
    assert str(raised.value) == reason


def test_json_is_read_where_its_schema_cannot_be(tmp_path: Path) -> None:
    pytest.importorskip("jsonschema_rs")
    (tmp_path / "7.json").write_text('{"$schema": "http://example.org/own", "type": "object"}')
    (tmp_path / "8.json").write_text('{"items": [{"type": "integer"}]}')  # as up to draft 7
    reader = PayloadReader(load(str(tmp_path)))
    found = reader.meaning("kafka", "t", None, None, b'\0\0\0\0\7{"a": 1}')
    assert (found.value, found.breaks_schema) == ({"a": 1}, False)
    assert str(found.misfit).startswith("json 7.json: no JSON Schema")
    assert reader.meaning("kafka", "t", None, None, b"\0\0\0\0\x08[1]").value == [1]
    assert reader.meaning("kafka", "t", None, None, b'\0\0\0\0\x08["a"]').breaks_schema


def test_a_json_schema_may_name_others_of_its_registry_and_nothing_else() -> None:
    pytest.importorskip("jsonschema_rs")
    decode = json_schema('{"properties": {"a": {"$ref": "item.json"}}}', {"item.json": '{"type": "string"}'})
    assert decode(b'{"a": "x"}', ()) == {"a": "x"}
    with pytest.raises(MisfitError):
        decode(b'{"a": 1}', ())
    for place in ("http://127.0.0.1:9/x.json", "file:///etc/hostname", "other.json"):
        with pytest.raises(SchemaError):
            json_schema(json.dumps({"$ref": place}), {})


def fields_of_nulls(levels: int) -> dict[str, str]:
    """Schemas of records, each of which holds the one before twice, the first a null: two to the power of parts."""
    made = {"R0": '{"type": "record", "name": "R0", "fields": [{"name": "a", "type": "null"}]}'}
    for n in range(1, levels):
        fields = [{"name": name, "type": f"R{n - 1}"} for name in "ab"]
        made[f"R{n}"] = json.dumps({"type": "record", "name": f"R{n}", "fields": fields})
    return made


def refused_schemas() -> Iterator[tuple[str, Callable[[], Any]]]:
    """Schemas by which a few bytes would take any time, or any memory."""
    *before, (_, last) = fields_of_nulls(40).items()
    yield "parts that take no bytes", lambda: decoders.avro(last, dict(before))
    yield (
        "more than 1,000 branches",
        lambda: decoders.avro(json.dumps([{"type": "fixed", "name": f"F{n}", "size": 1} for n in range(1_001)]), {}),
    )
    size = {"type": "fixed", "name": "F", "size": -1}
    yield "list of items that take no bytes", lambda: decoders.avro(json.dumps({"type": "array", "items": size}), {})
    yield "a size that is none", lambda: decoders.avro(json.dumps(size), {})
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(60)}
    whole = json.dumps({"$ref": "#/$defs/d0", "$defs": {**twice, "d60": {"type": "integer"}}})
    yield "more than 100,000 parts", lambda: json_schema(whole, {})


@pytest.mark.parametrize(
    ("reason", "make"), tuple(refused_schemas()), ids=lambda each: each if isinstance(each, str) else ""
)
def test_a_schema_that_would_take_any_time_is_refused(reason: str, make: Callable[[], Any]) -> None:
    pytest.importorskip("fastavro")
    pytest.importorskip("jsonschema_rs")
    with pytest.raises(SchemaError, match=reason):
        make()


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "array", "items": {"type": "record", "name": "A", "fields": [
            {"name": "n", "type": "long"}, {"name": "a", "type": ["null", "A"]}]}}, b"\x02" + b"\xff" * 1_000_000),
        ({"type": "int", "logicalType": "date"}, b"\xfe\xff\xff\xff\x0f"),
    ],
)  # fmt: skip
def test_what_is_beyond_what_is_read_is_no_misfit(schema: Any, value: bytes) -> None:
    pytest.importorskip("fastavro")
    with pytest.raises(LimitError):
        decoders.avro(json.dumps(schema), {})(value, ())


def test_a_large_decimal_takes_no_time() -> None:
    pytest.importorskip("fastavro")
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}
    decode = decoders.avro(json.dumps(schema), {})
    assert decode(b"\x04\x04\xd2", ()) == "12.34"
    assert set(decode(b"\x80\x89\x7a" + b"\0" * 1_000_000, ())) == {"A", "="}


def test_references_that_name_each_other_are_followed_once(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    rows = [
        {"id": n, "subject": f"s{n}", "version": 1, "schema": '"long"',
         "references": [{"name": f"r{m}-{n}", "subject": f"s{m}", "version": 1} for m in range(16)]}
        for n in range(16)
    ]  # fmt: skip
    (tmp_path / "registry.json").write_text(json.dumps(rows))
    found = PayloadReader(load(str(tmp_path / "registry.json"))).meaning("kafka", "t", None, None, b"\0\0\0\0\3\2")
    assert found.breaks_schema is False


def test_half_of_a_character_is_shown_as_an_escape() -> None:
    assert as_json(PayloadReader().meaning("kafka", "t", None, None, b'"\\ud800"').value) == '"\\ud800"'
