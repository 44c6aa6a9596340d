"""Assistants get the answers of the command line, of what is served and of nothing else."""

import asyncio
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.commands import objects, run

mcp = pytest.importorskip("mcp", reason="the Model Context Protocol's package is not installed")

ROOT = Path(__file__).parents[2]
SAMPLES = ROOT / "samples"
CODECS, TRANSACTIONS = str(SAMPLES / "kafka-codecs.pcap"), str(SAMPLES / "kafka-transactions.pcap")

pytestmark = pytest.mark.process


def ask(*calls: tuple[str, dict[str, Any]], serve: Sequence[str] = (CODECS, TRANSACTIONS)) -> list[Any]:
    """The results of some calls of tools, of one server."""

    async def asked() -> list[Any]:
        command = mcp.StdioServerParameters(command=sys.executable, args=["-m", "brokerscope", "mcp", *serve], cwd=ROOT)
        async with mcp.Client(command) as client:
            return [await client.call_tool(name, arguments) for name, arguments in calls]

    return asyncio.run(asked())


def test_tools_answer_as_the_commands_do() -> None:
    served = (CODECS, TRANSACTIONS)
    calls: dict[str, tuple[dict[str, Any], list[dict[str, Any]]]] = {
        "summary": ({}, objects("summary", *served)),
        "top": ({"by": "topic"}, objects("top", *served, "--by", "topic")),
        "groups": ({}, objects("groups", *served)),
        "lag": ({"group": "metrics-grp"}, objects("groups", *served, "--lag", "--group", "metrics-grp")),
        "transactions": ({}, objects("transactions", *served)),
        "audit": ({"topic": "pay-tx"}, objects("audit", *served, "--topic", "pay-tx")),
    }
    results = ask(*((name, arguments) for name, (arguments, _) in calls.items()))
    for (name, (_, expected)), result in zip(calls.items(), results, strict=True):
        assert not result.is_error, result.content
        assert result.structured_content["rows"] == expected, name


def test_from_a_verdict_to_its_requests_and_their_bodies() -> None:
    [evidence] = ask(("verdict_evidence", {"rank": 1}))
    [verdict] = evidence.structured_content["rows"]
    exchange = verdict["evidence"][0]["exchange_id"]
    shown, followed = ask(("show", {"what": exchange}), ("follow", {"connection": ":54652", "rows": 3}))
    assert exchange in shown.structured_content["text"]
    assert len(followed.structured_content["rows"]) == 3
    assert followed.structured_content["cut"]


def test_a_query_answers_with_as_many_rows_as_are_asked_for() -> None:
    query = "select api, count(*) as n from exchanges group by 1 order by 2 desc, 1"
    [result] = ask(("sql", {"query": query, "rows": 2}))
    assert result.structured_content["rows"] == objects("sql", CODECS, TRANSACTIONS, query)[:2]
    assert result.structured_content["cut"]


REFUSED: list[tuple[str, dict[str, Any]]] = [
    ("summary", {"path": "/etc"}),
    ("summary", {"path": f"{SAMPLES}/../samples/iggy-messages.pcap"}),
    ("summary", {"path": "file:///etc/hosts"}),
    ("show", {"what": "/etc/hosts:1"}),
    ("show", {"what": f"{SAMPLES}/iggy-messages.pcap:4"}),
    ("show", {"what": "--help"}),
    ("sql", {"query": str(SAMPLES / "iggy-messages.pcap")}),
    ("sql", {"query": "select * from read_csv('/etc/hosts')"}),
    ("sql", {"query": "copy exchanges to '/tmp/brokerscope-mcp.csv'"}),
    ("sql", {"query": "drop table exchanges"}),
    ("follow", {"connection": str(SAMPLES / "iggy-messages.pcap")}),
    ("top", {"by": "nothing"}),
    ("top", {"rows": 0}),
]


def test_nothing_else_is_read_and_nothing_is_written() -> None:
    for call, result in zip(REFUSED, ask(*REFUSED), strict=True):
        assert result.is_error, call
        assert "Traceback" not in result.content[0].text, call


def test_messages_are_shown_only_where_the_server_was_started_to() -> None:
    query = {"query": "select * from messages order by time limit 1"}
    [row] = ask(("sql", query))[0].structured_content["rows"]
    assert "value" not in row
    [row] = ask(("sql", query), serve=[CODECS, "--payloads"])[0].structured_content["rows"]
    assert row["value"]


def test_a_folder_that_analyze_wrote_is_served_too(tmp_path: Path) -> None:
    out = str(tmp_path / "out")
    run("analyze", CODECS, "-o", out, "-q")
    [result] = ask(("top", {"by": "topic"}), serve=[out])
    assert result.structured_content["rows"] == objects("top", CODECS, "--by", "topic")


def test_what_is_not_there_is_refused_at_the_start() -> None:
    assert run("mcp", "nowhere.pcap", code=3).strip() == "brokerscope: nowhere.pcap: no such file"


def test_what_the_server_was_started_with_is_what_tools_show(tmp_path: Path) -> None:
    pytest.importorskip("fastavro")
    sample, registry = str(SAMPLES / "kafka-schemas.pcap"), str(tmp_path / "registry.json")
    run("schemas", "save", sample, "-o", registry)
    calls: tuple[tuple[str, dict[str, Any]], ...] = (
        ("summary", {}),
        ("verdict_evidence", {"rank": 1}),
        ("follow", {"connection": ":48764"}),
        ("show", {"what": "kafka-schemas.pcap:86", "messages": True}),
        ("sql", {"query": "select * from messages"}),
    )
    for payloads in (True, False):
        asked = ("--payloads", "--schemas", registry, "--redact", "customer.email") if payloads else ()
        told = ask(*calls, serve=(sample, *asked))
        assert not any(each.is_error for each in told)
        texts = [json.dumps(each.structured_content) for each in told]
        assert ["schema_left" in text for text in texts[:2]] == [payloads] * 2
        assert ["order-8" in text and "redacted" in text for text in texts[2:]] == [payloads] * 3
        assert not any("example.org" in text for text in texts)


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("verdict_evidence", {"rank": 999}, "no verdict has the rank 999: `summary` lists them"),
        (
            "sql",
            {"query": "select value_json from messages"},
            "messages have the column value_json with --payloads only",
        ),
        ("sql", {"query": "select * from exchange"}, "no table 'exchange'; did you mean exchanges?"),
        ("follow", {"connection": "nobody"}, "no connection and no client nobody in these captures"),
    ],
)
def test_a_question_that_means_nothing_is_answered_in_one_sentence(
    tool: str, arguments: dict[str, Any], said: str
) -> None:
    [result] = ask((tool, arguments))
    assert result.is_error
    assert result.content[0].text.endswith(said)
