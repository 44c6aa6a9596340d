"""What looks like a token is cut, and the quick look for one overlooks none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dissectors import redaction

TOKENS = (
    "eyJhbGciOiJIUzI1NiJ9.s3cret",
    "BEARER s3cret",
    "Basic s3cret99",
    "bas\u0131c s3cret99",
    "PASSWORD=s3cret",
    "pa\u017f\u017fword:s3cret",
    "to\u212aen=s3cret",
    "Token:s3cret",
    "Secret:s3cret",
    "client_secret=s3cret",
    "pulsar://user:s3cret@host",
)
PIECES = st.sampled_from([
    *TOKENS, "eyJ", "bearer ", "basic ", "password", "token", "secret", "=", ":", "://", "/", "@", "x" * 9, " ", "&",
    "\u00df", "persistent://public/default/t",
])  # fmt: skip


@pytest.mark.parametrize("token", TOKENS)
def test_what_looks_like_a_token_is_cut(token: str) -> None:
    assert "s3cret" not in redaction.without_tokens(f"refused: {token}")


@given(st.lists(st.one_of(PIECES, st.text(max_size=3)), max_size=8).map("".join))
def test_a_text_without_the_signs_of_a_token_has_none(text: str) -> None:
    assert redaction.without_tokens(text) == redaction._TOKEN.sub(redaction.REDACTED, text)
