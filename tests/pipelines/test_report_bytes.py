"""`report --bytes`: packets in bytes beside what they decode to; and the head of the page, which says the harm."""

import shutil
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest

from tests.commands import SAMPLES, run
from tests.pipelines.pages import data, frame_bytes

_HARMS = "select distinct what from t_impacts"


@pytest.fixture(scope="module")
def analysed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bytes")
    shutil.copy(SAMPLES / "kafka-made.pcap", folder / "made.pcap")
    run("analyze", folder / "made.pcap", "-o", folder / "out", "--engine", "local", "-q")
    return folder / "out"


def frames(out: Path) -> dict[str, list[list[Any]]]:
    run("report", out, "--bytes", "-q")
    found: dict[str, list[list[Any]]] = data(out / "report.html")["frames"]
    return found


def test_requests_that_verdicts_name_have_their_bytes_and_what_these_say(analysed: Path) -> None:
    found = frames(analysed)
    assert found
    for text, raw in filter(itemgetter(1), frame_bytes(found)):
        assert text
        assert int.from_bytes(raw[:4], "big") > 0  # a frame of Kafka begins with its length
    assert {side for sides in found.values() for side, *_ in sides} == {"request", "response"}


def test_packets_in_which_credentials_may_lie_are_not_shown(analysed: Path) -> None:
    hidden = [side for sides in frames(analysed).values() for side in sides if "credentials" in side[4]]
    assert hidden
    assert all(raw == "" for _, _, _, raw, _ in hidden)


def test_without_the_captures_the_page_says_that_nothing_is_shown(analysed: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    shutil.copytree(analysed, out)
    (analysed.parent / "made.pcap").rename(tmp_path / "elsewhere.pcap")
    try:
        assert frames(out) == {}
    finally:
        (tmp_path / "elsewhere.pcap").rename(analysed.parent / "made.pcap")
    assert "0 requests that verdicts name have bytes in the panel" in (out / "report.html").read_text()


def test_a_page_holds_no_bytes_unless_they_are_asked_for(analysed: Path) -> None:
    run("report", analysed, "-q")
    assert data(analysed / "report.html")["frames"] == {}


def test_the_head_of_the_page_says_what_became_of_work(analysed: Path) -> None:
    page = (analysed / "report.html").read_text()
    head = page.partition('class="harm"')[2].partition("</ul>")[0]
    told = [text.strip('"') for text in run("sql", analysed, _HARMS, "-f", "csv", "-q").split()[1:]]
    assert told
    assert all(f">{what}</b>" in head for what in told)
