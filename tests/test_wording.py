"""Numbers of things in the text of findings."""

from dissectors.wording import counted, were


def test_one_is_no_plural() -> None:
    assert counted(1, "byte") == "1 byte"
    assert were(1, "request") == "1 request was"


def test_none_and_many_are() -> None:
    assert counted(0, "byte") == "0 bytes"
    assert counted(3, "batch") == "3 batches"
    assert were(12, "lookup") == "12 lookups were"
