"""Other people's encoders write messages; our decoders read them back equal."""

import importlib
import inspect
import random
from collections import defaultdict
from typing import Any

import pytest

from dissectors.kafka import schema
from dissectors.kafka.full import full, uuid_text
from tests.kafka.encoder import Encoder
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


KAFKA_PYTHON = ("metadata", "producer", "consumer", "admin", "sasl")


def kafka_python_classes(module: str) -> dict[str, type]:
    """The messages that a module of kafka-python knows, by name."""
    base = pytest.importorskip("kafka.protocol.api_message").ApiMessage
    found = {
        name: cls
        for name, cls in vars(importlib.import_module(f"kafka.protocol.{module}")).items()
        if inspect.isclass(cls) and issubclass(cls, base) and cls is not base
    }
    found.pop("ApiVersionsResponse", None)  # after any error code it reads version 0
    return found


def without_defaults(value: Any) -> Any:
    """A body without what need not be sent: kafka-python leaves out tagged fields that have their default."""
    defaults: tuple[Any, ...] = (None, [], {}, 0, -1, uuid_text(bytes(16)))
    if isinstance(value, dict):
        return {k: without_defaults(v) for k, v in value.items() if without_defaults(v) not in defaults}
    return [without_defaults(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("module", KAFKA_PYTHON)
def test_what_kafka_python_writes_is_read_back(module: str) -> None:
    """kafka-python reads a random instance and writes it again: our decoder finds in it what was in the first."""
    classes = kafka_python_classes(module)
    assert classes
    for name, cls in classes.items():
        message = schema.message(name)
        first, last = cls.valid_versions  # type: ignore[attr-defined]
        for version in range(first, last + 1):
            assert version in message.versions
            _, data = Encoder(message, version, random.Random(f"{name}{version}"), unknown_tags=False).body()
            theirs = cls.decode(data, version=version)  # type: ignore[attr-defined]
            theirs._header = None
            again = bytes(theirs.encode(version=version))
            mine, got = full(name, version, data, 0, len(data)), full(name, version, again, 0, len(again))
            assert got.exact, (name, version, got)
            assert without_defaults(got.body) == without_defaults(mine.body), (name, version)
