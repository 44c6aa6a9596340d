"""The prompt of `brokerscope sql`: what is typed there."""

import builtins

import pytest

from pipelines.cli import sql_prompt

TABLES = {"exchanges": ["api", "time"], "t_lag": ["group", "messages"]}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str | type[BaseException]]:
    """What a person types, a line each; an exception is a key that raises it. The end is Ctrl-D."""
    lines: list[str | type[BaseException]] = []

    def read(prompt: str) -> str:
        line = lines.pop(0) if lines else EOFError
        if isinstance(line, str):
            return line
        raise line

    monkeypatch.setattr(builtins, "input", read)
    return lines


def queries() -> list[str]:
    return list(sql_prompt._typed(TABLES))


def test_ctrl_c_drops_what_was_typed_and_the_prompt_goes_on(typed: list[str | type[BaseException]]) -> None:
    typed += ["select nonsense", KeyboardInterrupt, KeyboardInterrupt, "select 7;"]
    assert queries() == ["select 7;"]


def test_a_query_of_several_lines_ends_with_a_semicolon_or_an_empty_line(
    typed: list[str | type[BaseException]],
) -> None:
    typed += ["select", "1;", "select 2", "", "", "exit", "select 3;"]
    assert queries() == ["select\n1;", "select 2"]


@pytest.mark.parametrize("asked", [".tables", "\\d", "\\dt", "\\d ;"])
def test_tables_are_listed_as_in_other_prompts(
    asked: str, typed: list[str | type[BaseException]], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += [asked, "\\d t_lag;"]
    assert queries() == []
    assert capsys.readouterr().out.splitlines()[-1] == "t_lag: group, messages"


@pytest.mark.parametrize("asked", ["help", "HELP;", "\\?", ".help"])
def test_help_says_how_to_end_a_query(
    asked: str, typed: list[str | type[BaseException]], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += [asked]
    assert queries() == []
    assert "ends with ;" in capsys.readouterr().out
