"""What is checked in under proto/kafka is what the sources of facts say."""

import csv
import json
from typing import Any

from dissectors.kafka import schema
from dissectors.kafka.errors import error
from dissectors.kafka.releases import refused_since
from dissectors.wire.proto import proto
from tests.captures import facts, needs_facts


def table(name: str, body: dict[str, Any]) -> str:
    """A message of the facts in the format of proto/kafka/messages."""

    def lines(fields: list[dict[str, Any]], indent: str) -> list[str]:
        out = []
        for field in fields:
            words = ("nullable", "tag", "tagged", "flexible", "entity", "default")
            more = "".join(f" {word}={field[word]}" for word in words if word in field)
            out.append(f"{indent}{field['name']} {field['type']} {field['versions']}{more}")
            out += lines(field.get("fields", []), indent + "  ")
        return out

    key = "-" if body["apiKey"] is None else body["apiKey"]
    head = f"{name} {body['kind']} {key} {body['versions']} {body['flexible']}"
    return "\n".join([head, *lines(body["fields"], "  ")]) + "\n"


@needs_facts
def test_the_message_tables_are_current() -> None:
    messages = json.loads(facts("kafka_messages.json").read_text())
    assert schema.messages() == sorted(messages)
    for name, body in messages.items():
        assert proto("kafka", "messages", f"{name}.txt").read_text() == table(name, body), name


@needs_facts
def test_the_error_codes_are_current() -> None:
    with facts("kafka_errors.tsv").open() as file:
        for row in csv.DictReader(file, delimiter="\t"):
            known = error(int(row["number"]))
            assert (known.name, known.retriable) == (row["name"], row["retriable"] == "true")


@needs_facts
def test_the_api_keys_are_current() -> None:
    with facts("kafka_apis.tsv").open() as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    assert [int(row["key"]) for row in rows] == list(schema.apis())
    for row in rows:
        api = schema.apis()[int(row["key"])]
        assert (api.name, api.versions) == (row["name"], schema.versions(row["union_versions"]))
        for release in ("4.0", "4.1", "4.2", "4.3", "4.4"):
            served = schema.versions(row[f"AK{release.replace('.', '')}"])
            assert not set(served.each()) & set(refused_since(release).get(api.key, schema.NO_VERSIONS).each())


def test_every_api_has_its_request_and_response_in_all_its_versions() -> None:
    for api in schema.apis().values():
        for kind in ("Request", "Response"):
            message = schema.message(api.name + kind)
            assert message.key == api.key
            assert set(message.versions.each()) >= set(api.versions.each())


def test_a_code_that_is_not_in_the_tables_is_shown_as_its_number() -> None:
    assert error(9999) == ("ERROR_9999", None)


def test_versions_are_ranges() -> None:
    assert list(schema.versions("0-2,8").each()) == [0, 1, 2, 8]
    assert 3 not in schema.versions("0-2,8")
    assert 0 not in schema.versions("none")
