"""The texts of Spark's options mean what Spark's own users expect, or are refused by name."""

import pytest

from dissectors.errors import UsageError
from dissectors.limits import SPLIT_BYTES, Limits
from pipelines.spark import options as spark_options


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("65536", 65536),
        ("64k", 65536),
        ("64KB", 65536),
        ("64KiB", 65536),
        ("16m", 16 << 20),
        (" 1g ", 1 << 30),
        ("7b", 7),
    ],
)
def test_sizes_are_written_as_spark_writes_them(text: str, value: int) -> None:
    for given in (
        spark_options.of_source({"splitBytes": text}),
        spark_options.of_session({"spark.brokerscope.splitBytes": text}),
    ):
        assert given["splitBytes"] == value


def test_what_is_not_given_has_its_default() -> None:
    assert spark_options.of_session({"spark.master": "local"}) == {"splitBytes": None, "tableRows": 1_000_000_000}
    source = spark_options.of_source({})
    assert (source["site"], source["limits"], source["splitBytes"]) == ("place", Limits(), SPLIT_BYTES)


def test_names_are_told_apart_without_regard_to_case() -> None:
    assert spark_options.of_source({"splitbytes": "1k"})["splitBytes"] == 1024


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"splitBytes": "0"}, "splitBytes: '0' is less than 1"),
        ({"splitBytes": "1.5m"}, "splitBytes: '1.5m' is no size"),
        ({"splitBytes": "9" * 40}, "is no size"),
        ({"site": "("}, "site: '\\(' is no regular expression"),
        ({"limits": "{"}, "limits: "),
        ({"limits": "[" * 100_000}, "limits: "),
        ({"limits": "[1]"}, "is no JSON object"),
        ({"limits": '{"nothing": 1}'}, "limits: 'nothing' is none of api_key, "),
        ({"limits": '{"flows": "many"}'}, "limits: flows: 'many' is no size"),
        ({"paths": '{"a": 1}'}, "paths: .* is no JSON list"),
        ({"recursivefilelookup": "yes"}, "^recursiveFileLookup: 'yes' is neither true nor false"),
        ({"modifiedafter": "yesterday"}, "^modifiedAfter: 'yesterday' is no time"),
        ({"colour": "red"}, "^colour: there is no such option; there are path, paths, site"),
        ({"patglobfilter": "*"}, r"^patglobfilter: there is no such option; did you mean pathGlobFilter\?"),
    ],
)  # fmt: skip
def test_an_option_that_means_nothing_is_refused_by_name(given: dict[str, str], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        spark_options.of_source(given)


def test_a_limit_may_be_a_number_or_a_size() -> None:
    assert spark_options.of_source({"limits": '{"flows": 7, "block_bytes": "1m"}'})["limits"] == Limits(
        flows=7, block_bytes=1 << 20
    )
