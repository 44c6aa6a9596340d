"""A text has one number, however it is given, and the number gives the text back."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dissectors.rows import blocks
from dissectors.rows.texts import Numbered, Texts


def texts(numbered: Texts) -> pa.Array:
    """All of them, by number."""
    return blocks.texts(numbered.arena, numbered.starts, np.arange(numbered.count).data, 0)


ANY = st.text(max_size=20)  # lone surrogates too


@given(st.lists(ANY, max_size=50))
def test_numbers_count_from_0_and_give_the_texts_back(some: list[str]) -> None:
    numbered = Texts()
    numbers = [numbered.of(text) for text in some]
    shown = [text.encode("utf-8", "backslashreplace").decode() for text in some]
    assert [numbered.text(number) for number in numbers] == shown
    assert sorted(set(numbers)) == list(range(numbered.count))
    found = texts(numbered)
    found.validate(full=True)
    assert found.to_pylist() == list(dict.fromkeys(shown))


@given(st.binary(max_size=30), st.integers(0, 30), st.integers(0, 30))
def test_bytes_and_text_have_the_same_number(raw: bytes, start: int, size: int) -> None:
    start = min(start, len(raw))
    size = min(size, len(raw) - start)
    numbered = Texts()
    number = numbered.number(raw, start, size)
    shown = raw[start : start + size].decode("utf-8", "backslashreplace")
    assert numbered.text(number) == shown
    assert numbered.of(shown) == number == numbered.number(raw, start, size)
    assert numbered.count == 1


def test_many_and_long_texts_are_found_again() -> None:
    numbered = Texts()
    many = [f"client-{i}" for i in range(3000)] + ["x" * 10_000, ""]
    numbers = [numbered.of(text) for text in many]
    assert numbers == list(range(3002))
    assert [numbered.number(text.encode(), 0, len(text.encode())) for text in many] == numbers
    assert texts(numbered).to_pylist() == many


def test_what_arrow_was_given_stays_as_it_was() -> None:
    numbered = Texts()
    numbered.of("first")
    before = texts(numbered)
    for i in range(2000):
        numbered.of(f"text {i} of many that make the arena grow")
    assert before.to_pylist() == ["first"]


def test_objects_are_numbered_once() -> None:
    numbered = Numbered()
    assert [numbered.of(value) for value in (("a",), ("b", "c"), ("a",), ())] == [0, 1, 0, 2]
    assert numbered.values == [("a",), ("b", "c"), ()]
