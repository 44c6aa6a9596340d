"""The schema is understood as protoc understands it, and agrees with the protocol's message tables."""

from pathlib import Path

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

from dissectors.pulsar import api
from dissectors.pulsar.schema import descriptor
from dissectors.wire.proto import proto
from tests.captures import facts, needs_facts

TABLE = facts("pulsar_messages.tsv")
TYPES = {1: "double", 3: "int64", 4: "uint64", 5: "int32", 8: "bool", 9: "string", 12: "bytes", 13: "uint32"}


def test_the_schema_is_understood_as_protoc_understands_it(tmp_path: Path) -> None:
    protoc = pytest.importorskip("grpc_tools.protoc", reason="grpcio-tools is not installed")
    code = protoc.main(
        ["protoc", f"-I{proto('pulsar')}", f"--descriptor_set_out={tmp_path / 'set'}", "PulsarApi.proto"]
    )
    assert code == 0
    theirs = FileDescriptorSet.FromString((tmp_path / "set").read_bytes()).file[0]
    ours = FileDescriptorProto.FromString(descriptor("PulsarApi.proto", proto("pulsar", "PulsarApi.proto").read_text()))
    for message in theirs.message_type:
        for field in message.field:
            field.ClearField("json_name")
    assert ours == theirs


@pytest.mark.parametrize(
    "text",
    [
        'import "other.proto";',
        'syntax = "proto3";',
        "message One { optional Unknown it = 1; }",
        "message One { optional int32 it = 1 [packed = true]; }",
        "message One { optional int32 it 1; }",
        "enum One { A = 0",
        "message One",
    ],
)
def test_a_schema_that_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises((ValueError, StopIteration)):
        descriptor("x.proto", text)


def fields() -> set[tuple[str, int, str, str, str]]:
    """(message, number, label, type, name) of every field, (enum, number, "enum", "", name) of every value."""
    found = set()
    for message in api.DESCRIPTOR.message_types_by_name.values():
        for field in message.fields:
            type_ = TYPES.get(field.type) or (field.message_type or field.enum_type).name
            label = "repeated" if field.is_repeated else "required" if field.is_required else "optional"
            label = "oneof" if field.containing_oneof else label
            found.add((message.name, field.number, label, type_, field.name))
        for enum in message.enum_types:
            found |= {(f"{message.name}.{enum.name}", value.number, "enum", "", value.name) for value in enum.values}
    for enum in api.DESCRIPTOR.enum_types_by_name.values():
        found |= {(enum.name, value.number, "enum", "", value.name) for value in enum.values}
    return found


@needs_facts
def test_every_field_is_the_protocols() -> None:
    want = set()
    for line in TABLE.read_text().splitlines()[1:]:
        message, number, label, rest = line.split("\t")
        type_, _, name = rest.partition(" default ")[0].rpartition(" ")
        want.add((message, int(number), label, type_, name))
    assert fields() == want


@needs_facts
def test_every_default_is_the_protocols() -> None:
    for line in TABLE.read_text().splitlines()[1:]:
        message, _, _, rest = line.split("\t")
        if " default " in rest:
            declared, default = rest.split(" default ")
            field = api.DESCRIPTOR.message_types_by_name[message].fields_by_name[declared.split()[1]]
            value = (
                field.enum_type.values_by_number[field.default_value].name if field.enum_type else field.default_value
            )
            assert str(value).lower() == default.lower(), (message, declared)


def test_a_commands_field_number_is_its_type_number() -> None:
    base = api.DESCRIPTOR.message_types_by_name["BaseCommand"]
    numbers = {field.number for field in base.fields} - {1}
    assert numbers == set(base.enum_types_by_name["Type"].values_by_number)
