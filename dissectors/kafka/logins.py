"""Who logs in on a connection of Kafka by SASL: the name, the mechanism, and whether the broker took it.

    SaslHandshake      names the mechanism, which the broker may refuse
    SaslAuthenticate   carries the bytes of the mechanism; before version 1 of SaslHandshake they go bare

PLAIN and OAUTHBEARER take one exchange. SCRAM takes two: the first names the user, the second proves it. What a login
says beyond the name is a secret (nested.login_name reads no more).

Source: KIP-152, KIP-84, RFC 4616, RFC 5802, RFC 7628.
"""

from __future__ import annotations

from typing import NamedTuple


class KafkaLogin(NamedTuple):
    """A login that was taken (code 0) or refused. name, mechanism: None where they were not captured."""

    name: str | None
    mechanism: str | None
    code: int


class KafkaLogins:
    """What one connection has said of its login so far.

    mechanism: as the handshake named it; name: that the login says; named_now: in the exchange that is open
    told: the login that was reported last
    """

    __slots__ = ("mechanism", "name", "named_now", "told")

    def __init__(self) -> None:
        self.mechanism: str | None = None
        self.name: str | None = None
        self.named_now = False
        self.told: KafkaLogin | None = None

    def begins(self, mechanism: str | None, code: int) -> KafkaLogin | None:
        """Take a handshake with its answer: a login where the broker refuses the mechanism."""
        self.mechanism, self.name = mechanism, None
        return KafkaLogin(None, mechanism, code) if code else None

    def names(self, name: str | None) -> None:
        """Take the request of an exchange. name: that it says, if any."""
        self.named_now = name is not None
        self.name = name or self.name

    def answered(self, code: int) -> KafkaLogin | None:
        """Take its answer: a login where it was refused, or has come to its end and was not reported before."""
        begins_only = self.named_now and (self.mechanism or "").startswith("SCRAM-")
        if begins_only and not code:
            return None
        login = KafkaLogin(self.name, self.mechanism, code)
        if login == self.told:
            return None
        self.told = login
        return login
