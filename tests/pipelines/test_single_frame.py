"""`decode`: one frame from its bytes alone."""

import random
from contextlib import suppress
from pathlib import Path

import pytest

from dissectors.errors import UsageError
from pipelines.answers.single_frame import Side, decoded
from tests.commands import attempt, run
from tests.pulsar import wire as pulsar

VERSIONS = bytes.fromhex("00000014 0012 0003 00000001 0005 68656c6c6f 00 02 78 01 00".replace(" ", ""))
SIDES: tuple[Side, Side] = ("request", "response")


def test_a_request_says_what_its_head_and_its_body_hold() -> None:
    told = decoded(VERSIONS, "kafka")
    assert (told["api"], told["version"], told["correlation_id"], told["client_id"]) == ("ApiVersions", 3, 1, "hello")
    assert told["body"] == {"clientSoftwareName": "x", "clientSoftwareVersion": ""}
    assert decoded(VERSIONS[4:], "kafka") == told


def test_a_response_needs_the_api_that_it_answers() -> None:
    raw = bytes.fromhex("00000007 0000 00000001 0003 0000 000a".replace(" ", ""))
    told = decoded(raw, "kafka", api="apiversions", version=0)
    assert told["side"] == "response"
    assert told["body"]["apiKeys"] == [{"apiKey": 3, "minVersion": 0, "maxVersion": 10}]
    assert decoded(raw, "kafka", api=18, version=0) == told
    with pytest.raises(UsageError, match="does not say what it answers"):
        decoded(raw, "kafka", side="response")
    with pytest.raises(UsageError, match="no API 'Produse'"):
        decoded(raw, "kafka", api="Produse", version=0)


def test_a_frame_of_each_protocol_is_read() -> None:
    assert decoded(pulsar.simple(18), "pulsar")["api"] == "PING"
    legacy_ping = bytes.fromhex("04000000 01000000".replace(" ", ""))
    assert decoded(legacy_ping, "iggy")["api"] == "PING"
    told = decoded(bytes(8), "iggy", api="PING")
    assert (told["side"], told["status"]) == ("response", "ok")


def test_any_bytes_are_a_frame_or_a_usage_error() -> None:
    chance = random.Random(49)
    for _ in range(200):
        raw = chance.randbytes(chance.randint(0, 60))
        for protocol in ("kafka", "pulsar", "iggy"):
            for side in SIDES:
                with suppress(UsageError):
                    decoded(raw, protocol, side=side, api={"kafka": "Fetch", "iggy": "PING"}.get(protocol), version=4)


def test_the_command_takes_hex_a_file_or_stdin(tmp_path: Path) -> None:
    path = tmp_path / "frame.bin"
    path.write_bytes(VERSIONS)
    shown = run("decode", "kafka", path)
    assert "clientSoftwareName: x" in shown
    assert run("decode", "kafka", "--hex", "0x" + VERSIONS.hex(":")) == shown
    assert '"client_id": "hello"' in run("decode", "kafka", path, "-f", "json")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["kafka", "--hex", "0g"], "'g' is no hex digit"),
        (["kafka", "--hex", "000"], "3 digits are no whole bytes"),
        (["kafka"], "give the frame with --hex, or name one file"),
        (["kafka", "nowhere.bin"], "no such file"),
        (["rabbit", "--hex", "00"], "no protocol 'rabbit'"),
        (["pulsar", "--hex", "0000"], "no request of pulsar"),
    ],
)
def test_what_is_wrong_is_one_line(arguments: list[str], said: str) -> None:
    result = attempt("decode", *arguments)
    assert result.exit_code in (2, 3)
    assert said in result.stderr
    assert len(result.stderr.splitlines()) == 1
