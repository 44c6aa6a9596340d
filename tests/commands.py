"""Commands, run in the tests' process as a person types them."""

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner, Result

from pipelines.cli import app

SAMPLES = Path(__file__).parent.parent / "samples"


def attempt(*arguments: object, given: str | bytes | None = None, columns: int = 200) -> Result:
    """What a command does, however it ends. given: its standard input."""
    terminal = CliRunner(env={"COLUMNS": str(columns), "NO_COLOR": "1"})
    return terminal.invoke(app, [str(argument) for argument in arguments], input=given)


def run(*arguments: object, code: int = 0, **more: Any) -> str:
    """What a command writes that ends with this code: its answer, or why there is none."""
    done = attempt(*arguments, **more)
    assert done.exit_code == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def objects(*arguments: object) -> list[dict[str, Any]]:
    """The rows of what a command answers."""
    return [json.loads(line) for line in run(*arguments, "-f", "json", "-q").splitlines()]
