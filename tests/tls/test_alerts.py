"""TLS alerts that lie in clear on the wire."""

import pytest

from dissectors.tls.alerts import alert_in_clear


@pytest.mark.parametrize(
    ("record", "told"),
    [
        ("15 0303 0002 022d", "fatal certificate_expired"),
        ("15 0301 0002 0130", "warning unknown_ca"),
        ("15 0303 0002 02fe", "fatal 254"),
        ("15 0303 0002 0100", None),  # close_notify: an ordinary goodbye
        ("15 0303 0002 4a11", None),  # no level: it is encrypted
        ("15 0303 001a" + 26 * "5e", None),
        ("15 0303 0002 02", None),
    ],
)
def test_an_alert_is_named_where_it_lies_in_clear(record: str, told: str | None) -> None:
    assert alert_in_clear(bytes.fromhex(record)) == told
