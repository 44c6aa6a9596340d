"""What docs/platform.md tells schedulers is what the commands do."""

import ast
import json
import re
import shlex
from pathlib import Path

import pytest

from pipelines.cli import COMMANDS, _command, exits

PAGE = (Path(__file__).parents[2] / "docs" / "platform.md").read_text(encoding="utf-8")
PYTHON = re.findall(r"```python\n(.*?)```", PAGE, re.S)


def calls() -> list[list[str]]:
    """The words of each call of brokerscope on the page: in shells, in YAML and in Python."""
    found = [shlex.split(line, comments=True)[1:] for line in re.findall(r"^brokerscope .*$", PAGE, re.M)]
    found += [json.loads(words) for words in re.findall(r"args: (\[.*\])", PAGE)]
    for block in PYTHON:
        for node in ast.walk(ast.parse(block)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "brokerscope":
                found.append([ast.literal_eval(word) for word in node.args])
    return found


@pytest.mark.parametrize("words", calls(), ids=" ".join)
def test_each_call_is_one_that_the_command_takes(words: list[str]) -> None:
    command, *rest = words
    assert command in COMMANDS
    _command(command).make_context(command, rest)


def test_there_are_calls_of_each_kind() -> None:
    assert {words[0] for words in calls()} >= {"analyze", "expire", "compact"}
    assert len(calls()) > 6


def test_each_exit_code_stands_in_the_table() -> None:
    lines = re.findall(r"^\| ([\d, ]+) \|", PAGE, re.M)
    assert {int(code) for line in lines for code in line.split(",")} == exits.MEANINGS.keys()


def test_the_scheduler_retries_what_another_try_may_mend() -> None:
    (block,) = (block for block in PYTHON if "RETRIED" in block)
    tree = ast.parse(block)
    (retried,) = (n.value for n in tree.body if isinstance(n, ast.Assign) and ast.unparse(n.targets[0]) == "RETRIED")
    codes = ast.literal_eval(retried)
    assert {exits.NOTHING_MADE, exits.INTERRUPTED, exits.TERMINATED} == {code for code in codes if code > 0}
    final = json.loads(re.findall(r"operator: In, values: (\[.*?\])", PAGE)[0])
    assert not codes & set(final)
    assert {exits.WRONG_USAGE, exits.DEFECT} <= set(final)
