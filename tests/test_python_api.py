"""What a Python program gets: `open`, `dissect`, `iter_records`, `decode`; and the page that explains them."""

import io
import re
from pathlib import Path
from typing import Any

import pytest

import brokerscope
from brokerscope.drawing import MissingLibraryError
from tests.commands import run

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "samples" / "kafka-refused.pcap"
WRONG: list[Any] = [5, brokerscope.Options(), io.StringIO("x")]
CODE = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.S)


@pytest.fixture(scope="module")
def cap() -> brokerscope.OpenCapture:
    return brokerscope.open(SAMPLE)


def test_every_example_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    assert len(CODE) > 8
    for number, text in enumerate(CODE):  # each alone
        exec(compile(text, f"docs/python.md, example {number + 1}", "exec"), {})


def test_paths_bytes_and_open_files_give_the_same_rows(cap: brokerscope.OpenCapture) -> None:
    raw = SAMPLE.read_bytes()
    with SAMPLE.open("rb") as file:
        every: list[Any] = [str(SAMPLE), [SAMPLE], raw, memoryview(raw), io.BytesIO(raw), file]
        counts = [len(brokerscope.open(one).exchanges) for one in every]
    assert set(counts) == {len(cap.exchanges)}
    assert brokerscope.dissect(raw, "exchanges")["exchanges"].num_rows == len(cap.exchanges)


def test_dissect_and_iter_records_take_the_same_arguments() -> None:
    whole = brokerscope.dissect(SAMPLE, tables=["exchanges", "errors"])
    parts = list(brokerscope.iter_records(SAMPLE, tables=["exchanges", "errors"]))
    for name, table in whole.items():
        assert sum(batch.num_rows for found, batch in parts if found == name) == table.num_rows


def test_a_table_is_given_to_every_library(cap: brokerscope.OpenCapture) -> None:
    chosen = cap.exchanges.where(api="Produce")
    assert set(chosen.arrow()["api"].to_pylist()) == {"Produce"}
    assert len(chosen.pandas()) == len(chosen.polars()) == len(chosen)
    assert chosen.duckdb().count("*").fetchall() == [(len(chosen),)]


def test_filters_mean_what_the_options_mean(cap: brokerscope.OpenCapture) -> None:
    rows = cap.exchanges.arrow().to_pylist()
    assert len(cap.exchanges.where(api=["produce", "Metadata"])) == sum(
        row["api"] in ("Produce", "Metadata") for row in rows
    )
    assert len(cap.exchanges.where(topic="ERR-*")) == sum(
        any(name.startswith("err-") for name in row["topics"] or []) for row in rows
    )
    assert len(cap.exchanges.where(slower_than="5ms")) == sum((row["total_ns"] or 0) > 5_000_000 for row in rows)
    assert len(cap.exchanges.where("wait_ns > '5ms'", status="error")) == sum(
        (row["wait_ns"] or 0) > 5_000_000 and row["status"] == "error" for row in rows
    )
    assert len(cap.exchanges.where(group=None)) == sum(row["group"] is None for row in rows)
    assert len(cap.exchanges.where(error_code=None)) == sum(row["error_code"] is None for row in rows)
    assert len(cap.exchanges.where(api="Produce").where(status="ok")) == sum(
        row["api"] == "Produce" and row["status"] == "ok" for row in rows
    )


def test_a_row_has_attributes_and_decoded_bodies() -> None:
    row = next(iter(brokerscope.open(SAMPLE, full=True).exchanges.where(api="Produce")))
    assert row.api == row["api"] == "Produce"
    assert row.request.acks == -1
    assert row.request.topicData[0].partitionData[0].index == 0
    with pytest.raises(AttributeError, match="no column 'apii'"):
        _ = row.apii


def test_answers_are_those_of_the_command_line(cap: brokerscope.OpenCapture) -> None:
    verdicts = cap.verdicts()
    assert verdicts[0].severity in ("critical", "warning", "note")
    assert cap.summary().verdicts[0]["sentence"] == verdicts[0].sentence
    assert {row.key for row in cap.top(by="api")} == set(cap.exchanges.arrow()["api"].to_pylist())
    (slow,) = cap.top(by="server", causes=True)
    assert 0 < slow.count < len(cap.exchanges)
    assert slow[f"{slow.largest}_share"] > 0
    name = cap.exchanges.arrow()["connection"][0].as_py()
    connection = cap.connection(name.partition(">")[0])
    assert {row.connection for row in connection} == {name}
    assert connection.events()[0].text.startswith("opened")
    shown = cap.show(f"{SAMPLE.name}:{next(iter(connection)).request_packet}")
    assert shown.exchange.connection == name
    assert shown.request is not None
    assert cap.sql("select count(*) as n from exchanges").to_pylist() == [{"n": len(cap.exchanges)}]
    assert cap.sql("select sentence from t_verdicts order by rank").column(0).to_pylist() == [
        verdict.sentence for verdict in verdicts
    ]


def test_tables_and_answers_are_looked_at_as_data_frames_are(cap: brokerscope.OpenCapture) -> None:
    exchanges = cap.exchanges
    assert exchanges.columns == exchanges.arrow().schema.names
    assert [row.exchange_id for row in exchanges.head(2)] == exchanges.arrow()["exchange_id"].to_pylist()[:2]
    assert len(exchanges.head(10**9)) == len(exchanges)
    assert list(cap.verdicts().pandas()["sentence"]) == [verdict.sentence for verdict in cap.verdicts()]


def test_notebooks_show_tables_without_running_what_names_hold(cap: brokerscope.OpenCapture) -> None:
    from brokerscope.rows import html_table

    assert "<table>" in cap.exchanges._repr_html_()
    assert cap.verdicts()[0].sentence[:20] in cap._repr_html_()
    assert "<script>" not in html_table(["name"], [["<script>alert(1)</script>"]])


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (lambda cap: cap.exchanges.where(apii="x"), "did you mean api"),
        (lambda cap: cap.connections.where(topic="x"), "topic: cannot be used with the table connections"),
        (lambda cap: cap.exchanges.where("foo bar"), "syntax error"),
        (lambda cap: cap.table("exchange"), "no such table: exchange"),
        (lambda cap: cap.table("exchngs"), "did you mean exchanges?"),
        (lambda cap: cap.sql("select 1 from exchngs"), "no table 'exchngs'; did you mean exchanges?"),
        (lambda cap: cap.top(by="colour"), "by: no 'colour'"),
        (lambda cap: cap.top(by="tpoic"), "did you mean topic?"),
        (lambda cap: len(cap.exchanges.where(api="Produse")), "no api 'Produse' in these captures; did you mean Pro"),
        (lambda cap: len(cap.errors.where(topic="err-ee")), "no topic 'err-ee' in these captures; did you mean err-"),
        (lambda cap: cap.connection("err-epp"), "did you mean the client err-ep?"),
        (lambda cap: cap.top(sort="p99", causes=True), "sort: no 'p99'; there are time, count"),
        (lambda cap: cap.connection("10."), "10. fits 9 connections"),
        (lambda cap: cap.connection("nowhere"), "no connection and no client nowhere"),
        (lambda cap: cap.show(":99999"), "there is no TCP packet 99999"),
        (lambda cap: cap.sql("selec 1"), "syntax error"),
        (lambda cap: brokerscope.open(WRONG[0]), "not int"),
        (lambda cap: brokerscope.open([]), "no captures"),
        (lambda cap: brokerscope.open(SAMPLE, decode_as={9092: "kafkaa"}), "decode_as: no protocol 'kafkaa'"),
        (lambda cap: brokerscope.open(SAMPLE, dialects={"iggy": "iggy-9"}), "dialects: iggy has no 'iggy-9'"),
        (lambda cap: brokerscope.open(SAMPLE, site="("), "site: '(' is no regular expression"),
        (lambda cap: brokerscope.dissect(SAMPLE, tables="exchange"), "no such table"),
        (lambda cap: brokerscope.iter_records(SAMPLE, WRONG[1]), "in place of Options"),
        (lambda cap: brokerscope.open(WRONG[2]), "binary mode"),
        (lambda cap: brokerscope.decode(b"", "kafka"), "no bytes"),
    ],
)
def test_what_means_nothing_is_a_clear_error(cap: brokerscope.OpenCapture, question: Any, said: str) -> None:
    with pytest.raises(brokerscope.UsageError, match=re.escape(said)):
        question(cap)


def test_a_file_that_is_not_there_is_said_at_once() -> None:
    with pytest.raises(brokerscope.InputError, match="no such file"):
        brokerscope.open("nowhere.pcap")


def test_a_library_that_is_missing_is_named(cap: brokerscope.OpenCapture, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    for name in ("polars", "matplotlib.pyplot", "altair"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingLibraryError, match="pip install polars"):
        cap.exchanges.polars()
    for call in (cap.exchanges.plot, cap.plot.latency, cap.plot.lag):
        with pytest.raises(MissingLibraryError, match=r"matplotlib or altair: pip install 'brokerscope\[plot\]'"):
            call()


def test_names_of_the_package_are_those_that_people_use() -> None:
    assert "annotations" not in dir(brokerscope)
    assert all(hasattr(brokerscope, name) for name in dir(brokerscope))


def test_names_that_an_api_has_need_not_occur(cap: brokerscope.OpenCapture) -> None:
    assert len(cap.exchanges.where(api="OffsetFetch,EndTxn")) == len(cap.exchanges.where(api="OffsetFetch"))
    assert len(cap.exchanges.where(topic="nothing-*")) == 0


@pytest.mark.parametrize(
    ("question", "said"),
    [
        (lambda cap: cap.exchangs, "did you mean exchanges?"),
        (lambda cap: cap.verdicts()[0].sentense, "did you mean sentence?"),
        (lambda cap: brokerscope.opne, "did you mean open?"),
    ],
)
def test_an_attribute_that_there_is_not_names_the_nearest(
    cap: brokerscope.OpenCapture, question: Any, said: str
) -> None:
    with pytest.raises(AttributeError, match=re.escape(said)):
        question(cap)


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("open") / "out"
    run("analyze", SAMPLE, "-o", folder, "--engine", "local", "-q")
    return folder


def test_a_folder_that_analyze_wrote_answers_as_its_captures_do(cap: brokerscope.OpenCapture, out: Path) -> None:
    kept = brokerscope.open(out)
    assert kept.exchanges.arrow()["exchange_id"].to_pylist() == cap.exchanges.arrow()["exchange_id"].to_pylist()
    assert [row.sentence for row in kept.verdicts()] == [row.sentence for row in cap.verdicts()]
    assert [dict(row) for row in kept.top(by="broker")] == [dict(row) for row in cap.top(by="server")]
    assert len(kept.messages) == len(cap.messages)
    assert kept.show(17).exchange.api == cap.show(17).exchange.api
    assert next(iter(brokerscope.open(out, full=True).exchanges.where(api="Produce"))).request.acks == -1
    assert not kept.forensics()


def test_answers_have_methods_of_the_names_of_commands() -> None:
    cap = brokerscope.open(ROOT / "samples" / "kafka-transactions.pcap")
    assert any(event.what for group in cap.groups() for event in group.events)
    assert cap.transactions()
    assert {row.what for row in cap.audit()}
    assert cap.lag()
    assert cap.diff(SAMPLE).new["topic"]
    assert cap.diff(SAMPLE).new == cap.diff(brokerscope.open(SAMPLE)).new
    (case,) = brokerscope.open(ROOT / "samples" / "pulsar-corrupted.pcap").forensics()
    assert case.diagnosis.pattern == "single_bit"
