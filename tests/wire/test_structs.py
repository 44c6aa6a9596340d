"""Headers of a fixed layout, read together, are those that struct reads one by one."""

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dissectors.wire.structs import structs

LAYOUT = np.dtype([("kind", "u1"), ("length", ">u2"), ("time", "<i8"), ("rest", "V2"), ("count", ">i4")])
FIELDS = struct.Struct(">BH"), struct.Struct("<q"), struct.Struct(">2xi")


@given(st.binary(max_size=80), st.data())
def test_fields_of_many_headers_are_those_of_each(buffer: bytes, data: st.DataObject) -> None:
    places = range(len(buffer) - LAYOUT.itemsize + 1)
    at = data.draw(st.lists(st.sampled_from(places), max_size=9)) if places else []
    found = structs(buffer, LAYOUT, np.array(at, np.int64))
    for row, place in zip(found, at, strict=True):
        kind, length = FIELDS[0].unpack_from(buffer, place)
        (time,) = FIELDS[1].unpack_from(buffer, place + 3)
        (count,) = FIELDS[2].unpack_from(buffer, place + 11)
        assert (row["kind"], row["length"], row["time"], row["count"]) == (kind, length, time, count)


def test_headers_may_overlap() -> None:
    found = structs(bytes(range(40)), LAYOUT, np.array([3, 4, 3]))
    assert found["kind"].tolist() == [3, 4, 3]
