"""Other people's encoders write messages; our decoders read them back equal."""

from __future__ import annotations

import random
from collections import defaultdict

import pytest

from dissectors.kafka import schema
from dissectors.kafka.decode import full
from tests.kafka.oracles import kio_bytes, kio_class, kio_differences, kio_instance, kio_messages

pytest.importorskip("kio")

BY_MESSAGE: dict[tuple[str, str], list[int]] = defaultdict(list)
for package, version, kind in kio_messages():
    BY_MESSAGE[package, kind].append(version)
NAMES = {name.lower(): name for name in schema.messages()}


@pytest.mark.parametrize(("package", "kind"), sorted(BY_MESSAGE))
def test_what_kio_writes_is_read_back(package: str, kind: str) -> None:
    name = NAMES[package.replace("_", "") + kind]
    for version in BY_MESSAGE[package, kind]:
        assert version in schema.message(name).versions
        cls = kio_class(package, version, kind)
        for seed in range(4):
            instance = kio_instance(cls, random.Random(f"{package}{kind}{version}{seed}"))
            data = b"head" + kio_bytes(instance)
            got = full(name, version, data, 4, len(data))
            assert got.exact, (version, got.trouble, got.left, instance)
            assert kio_differences(instance, got.body, name) == [], version


def test_kio_knows_most_messages() -> None:
    assert sum(map(len, BY_MESSAGE.values())) > 500
