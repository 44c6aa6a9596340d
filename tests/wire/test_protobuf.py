"""Fields are found without a schema, as far as they are whole."""

from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.protobuf import BYTES, FIXED32, FIXED64, VARINT, WireField, fields
from tests.pulsar import wire

VALUES = st.one_of(st.integers(0, (1 << 64) - 1), st.binary(max_size=200))


@given(st.lists(st.tuples(st.integers(1, 1 << 20), VALUES)), st.binary(max_size=3), st.data())
def test_fields_are_those_that_were_written_up_to_where_the_bytes_end(
    written: list[tuple[int, int | bytes]], before: bytes, draw: st.DataObject
) -> None:
    data, ends = before, [len(before)]
    for field in written:
        data += wire.message([field])
        ends.append(len(data))
    cut = draw.draw(st.integers(len(before), len(data)))
    found = list(fields(data, len(before), cut))
    whole = [field for field, end in zip(written, ends[1:], strict=True) if end <= cut]
    assert [(f.number, f.value if f.kind == VARINT else data[f.start : f.end]) for f in found] == whole
    assert [f.end for f in found] == ends[1 : len(whole) + 1]


def test_fixed_fields_have_four_and_eight_bytes() -> None:
    data = bytes([1 << 3 | FIXED32, *b"1234", 2 << 3 | FIXED64, *b"12345678", 3 << 3 | BYTES, 0])
    assert list(fields(data, 0, len(data))) == [
        WireField(1, FIXED32, 0, 1, 5),
        WireField(2, FIXED64, 0, 6, 14),
        WireField(3, BYTES, 0, 16, 16),
    ]
    assert len(list(fields(data, 0, 13))) == 1


def test_what_stands_behind_an_unknown_wire_type_is_not_read() -> None:
    data = wire.message([(1, 5)]) + bytes([2 << 3 | 3]) + wire.message([(3, 7)])
    assert [field.number for field in fields(data, 0, len(data))] == [1]
