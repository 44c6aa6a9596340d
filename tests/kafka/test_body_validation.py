"""What bytes may be a message of: all messages tried at once, and each of them alone, give the same."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest

from dissectors.kafka import schema
from dissectors.kafka.body_validation import Candidates, is_sensible, steps_of
from dissectors.kafka.schema import SIZES, SchemaField
from tests.kafka.encoder import Encoder

RESPONSES = [
    (name, run[0])
    for name in schema.messages()
    if schema.message(name).kind == "response"
    for run in schema.alike(schema.message(name))
]
ALL = Candidates((steps_of(*each), each) for each in RESPONSES)


class Plain(Encoder):
    """Bodies as brokers write them: error codes and times that exist, no tagged fields of which nobody knows."""

    def one(self, field: SchemaField) -> tuple[Any, bytes]:
        if field.type not in SIZES or field.type in ("uuid", "float64", "bool"):
            return super().one(field)
        value = self.rng.choice((0, 0, 1, 3))
        return value, struct.pack(">q", value)[8 - SIZES[field.type] :]


def fitting(body: bytes) -> list[tuple[str, int]]:
    at_once = sorted(ALL.fitting(body, 0))
    alone = [(name, version) for name, version in RESPONSES if is_sensible(name, version, body, 0, len(body))]
    assert at_once == alone, body
    return at_once


@pytest.mark.parametrize("name", sorted({name for name, _ in RESPONSES}))
def test_bytes_fit_the_same_messages_whether_these_are_tried_at_once_or_each_alone(name: str) -> None:
    rng = random.Random(name)
    for version in (version for each, version in RESPONSES if each == name):
        _, body = Plain(schema.message(name), version, rng, unknown_tags=False).body()
        assert (name, version) in fitting(body)
        for _ in range(6):
            changed = bytearray(body)
            if changed:
                changed[rng.randrange(min(len(changed), 40))] = rng.choice((0, 1, 2, 127, 255))
            fitting(bytes(changed[: rng.randrange(len(changed) + 1)] if rng.random() < 0.5 else changed))


def test_zeros_fit_the_same_messages_whether_these_are_tried_at_once_or_each_alone() -> None:
    fits = [fitting(bytes(size)) for size in range(40)]
    assert any(fits)
