"""The tools that `brokerscope mcp` serves: each runs a command in a process of its own and gives the JSON it prints.

So answers are those of the command line, a tool that takes too much time or memory ends alone, and what was decoded
once is kept for the next tool as it is for the next command.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import anyio
from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import Field

from pipelines.answers.top import By, Sort
from pipelines.cli import exits
from pipelines.cli.reading import AskedPayloads
from pipelines.cli.show import PLACE

_SECONDS = 600  # that a tool may take
_BYTES = 4 << 20  # of an answer
_ROWS = 200  # of an answer, where none are asked for
_MOST_ROWS = 10_000
_ANSWERED = (exits.DONE, exits.NOT_DELIVERED, exits.UNREADABLE)
_EXCHANGE = re.compile(r"[0-9a-f]{1,32}-[a-z]?\d{1,20}")
_OF_COMMANDS = re.compile(r"^brokerscope: (Invalid value for [A-Z]+: )?| \([^()]* --help\)$")  # in what they say
_INSTRUCTIONS = (
    "What Kafka, Pulsar and Iggy brokers did, as packet captures show it. Begin with `summary`: verdicts, ranked by "
    "harm, each with its evidence. Names of columns are those of `sql`: record tables exchanges, batches, errors, "
    "connections, findings, positions, stalls, events; aggregate tables t_verdicts, t_impacts, t_latency and so on."
)

Below = Annotated[str | None, Field(description="A file or folder below those that are served; by default all.")]
Since = Annotated[str | None, Field(description="Only from this time on, UTC: 01:11:18 or 2026-01-31T01:11:18.")]
Until = Annotated[str | None, Field(description="Only before this time.")]
Topic = Annotated[str | None, Field(description="Only these topics, comma-separated; * and ? stand for any text.")]
Client = Annotated[str | None, Field(description="Only these clients: ids, IP addresses or IP:PORT.")]
Server = Annotated[str | None, Field(description="Only these brokers: IP, PORT or IP:PORT.")]
Group = Annotated[str | None, Field(description="Only these consumer groups or subscriptions.")]
Api = Annotated[str | None, Field(description="Only these APIs: Produce, SEND.")]
Rows = Annotated[int, Field(ge=1, le=_MOST_ROWS, description="Rows at most.")]
Answer = dict[str, Any]


class ServedCaptures:
    """The captures that are served, and the commands that answer about them."""

    def __init__(self, paths: Sequence[str], payload: AskedPayloads) -> None:
        self._paths = list(paths)
        self.payload: Answer = vars(payload)
        """The options that show, or judge, keys and values of messages: all are off without --payloads."""
        self.judged: Answer = {name: self.payload[name] for name in ("payloads", "schemas")}

    def below(self, path: str | None) -> list[str]:
        """What a tool reads: a file or folder below those that are served, or named as from there.

        Raises ToolError for any other.
        """
        if path is None:
            return self._paths
        if "://" in path or "\0" in path:
            raise ToolError(f"{path!r} is not below what is served")
        roots = [Path(each).resolve() for each in self._paths if "://" not in each]
        named = [file for root in roots for file in (root if root.name == path else root / path,) if file.exists()]
        found = named[0].resolve() if named and not Path(path).exists() else Path(path).resolve()
        if not any(found == root or (root.is_dir() and root in found.parents) for root in roots) or not found.exists():
            raise ToolError(f"{path!r} is not below what is served: {', '.join(self._paths)}")
        return [str(found)]

    async def ask(self, command: str, arguments: Sequence[str], *, most: int = _MOST_ROWS, **options: Any) -> Answer:
        """What a command prints: {"rows": [...], "notes": [...]}; with "cut": true where there are more than `most`.

        arguments: positional ones; options: by their names, those that are None or False left out.
        """
        options |= {} if command == "show" else {"format": "json"}
        given = [
            f"--{name}" if value is True else f"--{name}={value}"
            for name, value in options.items()
            if value is not None and value is not False
        ]
        line = [sys.executable, "-m", "brokerscope", command, *given, "--quiet", "--", *arguments]
        done = await anyio.to_thread.run_sync(_run, line)
        if done is None:
            raise ToolError(f"no answer within {_SECONDS} s: ask about a shorter time, or with fewer names")
        if done.code not in _ANSWERED or (done.code == exits.UNREADABLE and not done.printed):
            said = " ".join(_OF_COMMANDS.sub("", note) for note in done.notes)
            raise ToolError(said or f"{command} ended with {done.code}")
        return _answer(done, most)


class _Done(NamedTuple):
    """A command that has ended."""

    code: int
    printed: bytes
    notes: list[str]  # lines of stderr


def _run(line: Sequence[str]) -> _Done | None:
    """Run a command, and stop it once it has printed more than an answer may have; None where it takes too long."""
    environment = {**os.environ, "NO_COLOR": "1"}
    with tempfile.TemporaryFile() as said:
        child = subprocess.Popen(line, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, env=environment)
        late = threading.Timer(_SECONDS, child.kill)
        late.start()
        with child:
            assert child.stdout is not None
            printed = child.stdout.read(_BYTES + 1)
            if len(printed) > _BYTES:
                child.kill()
            code = child.wait()
        is_late = late.finished.is_set()
        late.cancel()
        said.seek(0)
        notes = said.read(_BYTES).decode("utf-8", "replace").splitlines()
    if len(printed) > _BYTES:
        return _Done(exits.DONE, printed, notes)
    return None if is_late else _Done(code, printed, notes)


def _answer(done: _Done, rows: int) -> Answer:
    """Printed JSON, a row a line, or text, as an answer of a bounded size."""
    printed = done.printed
    cut = len(printed) > _BYTES
    if cut:
        printed = printed[: printed.rfind(b"\n", 0, _BYTES) + 1]
    lines = printed.decode("utf-8", "replace").splitlines()
    answer: Answer = {"notes": done.notes} if done.notes else {}
    if lines and not lines[0].startswith("{"):
        answer["text"] = "\n".join(lines)
    else:
        answer["rows"] = [json.loads(line) for line in lines[:rows]]
        cut = cut or len(lines) > rows
    return {**answer, "cut": True} if cut else answer


def server(paths: Sequence[str], payload: AskedPayloads) -> MCPServer[Any]:
    """A server of tools about captures, or about one folder that `analyze` wrote."""
    captures = ServedCaptures(paths, payload)
    made: MCPServer[Any] = MCPServer("brokerscope", instructions=_INSTRUCTIONS, log_level="ERROR")

    @made.tool()
    async def summary(path: Below = None, since: Since = None, until: Until = None) -> Answer:
        """What captures hold, what is wrong (verdicts, ranked by harm), what cannot be seen, the slowest requests."""
        return await captures.ask("summary", captures.below(path), since=since, until=until, **captures.judged)

    @made.tool()
    async def verdict_evidence(
        rank: Annotated[int, Field(ge=1, description="The verdict's rank in `summary`.")],
        path: Below = None,
        since: Since = None,
        until: Until = None,
    ) -> Answer:
        """One verdict whole: sentence, detail, advice, who is concerned, the requests that it counts, causes."""
        asked = [*captures.below(path), f"select * from t_verdicts where rank = {rank}"]
        answer = await captures.ask("sql", asked, since=since, until=until, **captures.judged)
        if not answer["rows"]:
            raise ToolError(f"no verdict has the rank {rank}: `summary` lists them")
        return answer

    @made.tool()
    async def top(
        by: By = "api",
        sort: Sort = "time",
        every: Annotated[str | None, Field(description="Rows for each interval of this length: 10s, 1min.")] = None,
        causes: Annotated[bool, Field(description="Where the time of slow requests went.")] = False,
        path: Below = None,
        since: Since = None,
        until: Until = None,
        topic: Topic = None,
        client: Client = None,
        server: Server = None,
        rows: Rows = 20,
    ) -> Answer:
        """What costs most: count, errors, percentiles of durations, bytes, by topic, client, server, API and so on."""
        return await captures.ask(
            "top", captures.below(path), by=by, sort=sort, every=every, causes=causes, since=since, until=until,
            topic=topic, client=client, server=server, head=rows,
        )  # fmt: skip

    @made.tool()
    async def groups(path: Below = None, group: Group = None, since: Since = None, until: Until = None) -> Answer:
        """Consumer groups and subscriptions: members, joins, leaves, each rebalance and how long it took."""
        return await captures.ask("groups", captures.below(path), group=group, since=since, until=until)

    @made.tool()
    async def lag(path: Below = None, group: Group = None, since: Since = None, until: Until = None) -> Answer:
        """How far each group is behind in each partition, in messages and in time, and whether it keeps up."""
        return await captures.ask("groups", captures.below(path), lag=True, group=group, since=since, until=until)

    @made.tool()
    async def transactions(path: Below = None, since: Since = None, until: Until = None, topic: Topic = None) -> Answer:
        """Each transaction, how long it was open and how it ended."""
        return await captures.ask("transactions", captures.below(path), since=since, until=until, topic=topic)

    @made.tool()
    async def audit(path: Below = None, topic: Topic = None, group: Group = None) -> Answer:
        """Whether messages that a broker acknowledged were lost, doubled or put out of order, for each topic."""
        return await captures.ask("audit", captures.below(path), topic=topic, group=group)

    @made.tool()
    async def connections(path: Below = None, client: Client = None, server: Server = None, rows: Rows = 50) -> Answer:
        """The connections: who, to whom, since when, software, packets, losses."""
        query = f"select * from connections order by start_time limit {rows}"
        return await captures.ask("sql", [*captures.below(path), query], client=client, server=server)

    @made.tool()
    async def follow(
        connection: Annotated[str, Field(description="A connection, or a part of its name: ':43210'.")],
        path: Below = None,
        since: Since = None,
        until: Until = None,
        topic: Topic = None,
        api: Api = None,
        rows: Rows = _ROWS,
    ) -> Answer:
        """One connection in time order: requests, answers, messages where they are shown, and what else was found."""
        _refuse_path(connection)
        options = {"since": since, "until": until, "topic": topic, "api": api, **captures.payload}
        return await captures.ask("follow", [connection, *captures.below(path)], most=rows, **options)

    @made.tool()
    async def show(
        what: Annotated[str, Field(description="An exchange_id, or FILE:PACKET.")],
        path: Below = None,
        messages: Annotated[bool, Field(description="Each message: position, time, sizes.")] = False,
    ) -> Answer:
        """One exchange with both bodies, its times, errors, batches, as text."""
        options = {"messages": messages, **(captures.payload if messages else {})}
        place = PLACE.fullmatch(what)
        if place is not None:
            (file,) = captures.below(place["file"])
            return await captures.ask("show", [f"{file}:{place['packet']}"], **options)
        if not _EXCHANGE.fullmatch(what):
            raise ToolError(f"{what!r} is no exchange_id and no FILE:PACKET")
        return await captures.ask("show", [what, *captures.below(path)], **options)

    @made.tool()
    async def sql(
        query: Annotated[str, Field(description="One SELECT of DuckDB's SQL over record and aggregate tables.")],
        path: Below = None,
        rows: Rows = _ROWS,
    ) -> Answer:
        """Any question, in SQL. A query reads record and aggregate tables and nothing else, and changes nothing."""
        _refuse_path(query)
        if len(query.split()) < 2:
            raise ToolError("a query has several words")
        return await captures.ask("sql", [*captures.below(path), query], most=rows, **captures.payload)

    return made


def _refuse_path(text: str) -> None:
    """Raise ToolError for a text that a command would take for one more capture."""
    if "://" in text or os.path.lexists(text) or text == "-":
        raise ToolError(f"{text!r} is a path: name it as `path`")
