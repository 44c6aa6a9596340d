"""Which keys protect the records of a connection, one epoch after another: the key schedule.

    stage        TLS 1.2                     TLS 1.3
    PLAIN        up to ChangeCipherSpec      the hellos
    EARLY                                    0-RTT data of the client, where the server accepted it
    HANDSHAKE                                up to Finished
    APPLICATION  Finished and all data       all data; a KeyUpdate begins another epoch of this stage

Sources: RFC 5246 section 6.3; RFC 8446 sections 2.3, 4.6.3 and 7.
"""

from __future__ import annotations

from typing import NamedTuple

from dissectors.tls import hello, keylog, keys
from dissectors.tls.hello import TLS12, TLS13, VERSIONS
from dissectors.tls.keylog import KeyLog
from dissectors.tls.keys import Keys
from dissectors.tls.suites import SUITES, Suite

PLAIN, EARLY, HANDSHAKE, APPLICATION = range(4)


class Epoch(NamedTuple):
    """What protects the records of a direction."""

    stage: int
    keys: Keys | None = None
    secret: bytes = b""  # TLS 1.3: the traffic secret behind the keys


class KeySchedule:
    """The epochs of one connection, as far as its hellos and a key log give them."""

    def __init__(self, log: KeyLog | None) -> None:
        self.offer: hello.ClientHello | None = None
        self.choice: hello.ServerHello | None = None
        self.cipher: str | None = None
        """Cipher suite, by its registered name."""
        self._log = log
        self._suite: Suite | None = None
        self._master: bytes | None = None

    @property
    def tls13(self) -> bool:
        return self.choice is not None and self.choice.version == TLS13

    @property
    def known(self) -> bool:
        """Whether both hellos are known, and what they agree on can be opened with a key log."""
        return self.choice is not None and self._suite is not None and self._log is not None

    def offered(self, offer: hello.ClientHello) -> None:
        """A ClientHello. One after a choice negotiates TLS 1.2 again, inside the old keys."""
        self.offer, self.choice = offer, None

    def chosen(self, choice: hello.ServerHello) -> str | None:
        """A ServerHello that is no request to retry. Returns why nothing can be opened, where that is so."""
        self.choice = choice
        self._suite = SUITES.get(choice.suite)
        self.cipher = self._suite.name if self._suite else f"0x{choice.suite:04x}"
        if self._log is None:
            return "No key log was given"
        if choice.version not in (TLS12, TLS13):
            return f"{version(choice)} is not decrypted"
        if self._suite is None:
            return f"Cipher suite {self.cipher} is not decrypted: only AEAD suites are"
        return None if choice.version == TLS13 else self._find_master(self._log, choice)

    def ticket(self, body: bytes) -> None:
        """A NewSessionTicket of TLS 1.2: who shows it resumes this session."""
        if self._log and self._master:
            self._log.remember(hello.session_ticket(body), self._master)

    def first(self, client: bool) -> Epoch | None:
        """TLS 1.3: the first epoch behind the hellos of which the key log has the secret."""
        return self.epoch(client, HANDSHAKE) or self.epoch(client, APPLICATION)

    def early(self) -> Epoch | None:
        """TLS 1.3: the epoch of the client's 0-RTT data."""
        return self._epoch13(EARLY, keylog.EARLY)

    def epoch(self, client: bool, stage: int) -> Epoch | None:
        """The epoch of a stage behind the hellos; None where the key log lacks its secret."""
        if not self.tls13:
            return self._epoch12(client)
        labels = keylog.HANDSHAKE if stage == HANDSHAKE else keylog.APPLICATION
        return self._epoch13(stage, labels[not client])

    def following(self, client: bool, epoch: Epoch) -> Epoch | None:
        """The epoch that comes after this one."""
        if not self.tls13:
            return self._epoch12(client) if epoch.stage == PLAIN else None
        if epoch.stage < APPLICATION:
            return self.epoch(client, max(epoch.stage + 1, HANDSHAKE))
        assert self._suite is not None
        return self._under(APPLICATION, keys.next_secret(self._suite, epoch.secret))

    def _find_master(self, log: KeyLog, choice: hello.ServerHello) -> str | None:
        assert self.offer is not None
        session = choice.session_id
        self._master = log.get(keylog.MASTER, self.offer.random)
        if self._master is None and session and session == self.offer.session_id:  # the server resumes a session
            self._master = log.resumed(self.offer.ticket or session)
        if self._master is None:
            return "The key log lacks the master secret of this session"
        if session:
            log.remember(session, self._master)
        return None

    def _epoch12(self, client: bool) -> Epoch | None:
        if not (self._suite and self._master and self.offer and self.choice):
            return None
        pair = keys.keys12(self._suite, self._master, self.offer.random, self.choice.random)
        return Epoch(APPLICATION, pair[not client])

    def _epoch13(self, stage: int, label: str) -> Epoch | None:
        assert self._log is not None
        assert self.offer is not None
        secret = self._log.get(label, self.offer.random)
        return self._under(stage, secret) if secret else None

    def _under(self, stage: int, secret: bytes) -> Epoch | None:
        return Epoch(stage, keys.keys13(self._suite, secret), secret) if self._suite else None


def version(choice: hello.ServerHello) -> str:
    """`TLS 1.3`, for example."""
    return VERSIONS.get(choice.version, f"0x{choice.version:04x}")
