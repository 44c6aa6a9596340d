"""What a person types and means: other words for the same, names that are nearly right, packets without a frame."""

import pytest

from tests.commands import SAMPLES, objects, run

REFUSED = SAMPLES / "kafka-refused.pcap"


def test_broker_and_server_are_one() -> None:
    assert run("top", REFUSED, "--by", "broker") == run("top", REFUSED, "--by", "server")
    assert run("dissect", REFUSED, "--broker", "9092") == run("dissect", REFUSED, "--server", "9092")
    assert " 1 broker," in " ".join(run("summary", REFUSED).split())


def test_along_time_no_two_columns_are_called_alike() -> None:
    heads = run("top", REFUSED, "--by", "broker", "--every", "1s").splitlines()[1].split()
    assert len(heads) == len(set(heads))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["top", REFUSED, "--by", "tpoic"], "no 'tpoic'; did you mean topic?"),
        (["top", REFUSED, "--sort", "tiem"], "no 'tiem'; did you mean time?"),
        (["dissect", REFUSED, "-t", "exchnges"], "no 'exchnges'; did you mean exchanges?"),
        (["dissect", REFUSED, "-t", "verdicts"], 'brokerscope sql CAPTURE… "select * from t_verdicts"'),
        (["summery", REFUSED], "no command 'summery'; did you mean summary?"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_by_the_right_one(arguments: list[object], said: str) -> None:
    assert said in run(*arguments, code=2)


def test_help_is_a_command() -> None:
    assert run("help").startswith("Usage:")
    assert run("help", "top") == run("top", "--help")


def test_connections_are_followed_by_the_id_of_their_client() -> None:
    rows = objects("follow", REFUSED, "err-ep")
    assert len(rows) > 1
    assert all(row["client_ids"] == ["err-ep"] for row in rows)
    assert "did you mean the client err-e" in run("follow", REFUSED, "err-epp", code=3)


def test_connections_of_a_pipe_are_listed() -> None:
    assert run("follow", "-", given=REFUSED.read_bytes()) == run("follow", REFUSED)
