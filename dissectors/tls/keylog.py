"""NSS key log files: `LABEL <client random, hex> <secret, hex>`, one secret a line.

Source: https://www.ietf.org/archive/id/draft-ietf-tls-keylogfile-02.html. pcapng files carry the same text in
Decryption Secrets Blocks.
"""

from __future__ import annotations

import re
from pathlib import Path

MASTER = "CLIENT_RANDOM"  # TLS 1.2: the master secret
EARLY = "CLIENT_EARLY_TRAFFIC_SECRET"
HANDSHAKE = ("CLIENT_HANDSHAKE_TRAFFIC_SECRET", "SERVER_HANDSHAKE_TRAFFIC_SECRET")
APPLICATION = ("CLIENT_TRAFFIC_SECRET_0", "SERVER_TRAFFIC_SECRET_0")
_LABELS = "|".join((MASTER, EARLY, *HANDSHAKE, *APPLICATION))
_LINE = re.compile(rf"^\s*({_LABELS})\s+([0-9a-fA-F]{{64}})\s+((?:[0-9a-fA-F]{{2}}){{16,64}})\s*$".encode(), re.M)

MAX_SESSIONS = 10_000  # resumable sessions remembered; the oldest is forgotten first


class KeyLog:
    """Secrets by label and client random; and the master secrets of TLS 1.2 sessions that may be resumed.

    Its repr shows a count only: secrets never leave it but towards a cipher.
    """

    def __init__(self) -> None:
        self._secrets: dict[tuple[str, bytes], bytes] = {}
        self._sessions: dict[bytes, bytes] = {}
        self.complete = False  # no more secrets will be added

    @property
    def hopeless(self) -> bool:
        """Whether nothing will ever be decrypted."""
        return self.complete and not self._secrets

    @classmethod
    def load(cls, source: str | Path | bytes) -> KeyLog:
        """From a file, or from the text itself. Lines of other labels and comments are passed over."""
        log = cls()
        log.add(source if isinstance(source, bytes) else Path(source).read_bytes())
        return log

    def add(self, text: bytes) -> int:
        """Merge more lines, as from a Decryption Secrets Block; returns how many secrets they hold."""
        found = _LINE.findall(text)
        for label, random, secret in found:
            self._secrets[label.decode(), bytes.fromhex(random.decode())] = bytes.fromhex(secret.decode())
        return len(found)

    def get(self, label: str, client_random: bytes) -> bytes | None:
        """The secret of a session."""
        return self._secrets.get((label, client_random))

    def remember(self, session: bytes, master: bytes) -> None:
        """A TLS 1.2 session may be resumed under this session id or ticket."""
        if len(self._sessions) >= MAX_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        self._sessions[session] = master

    def resumed(self, session: bytes) -> bytes | None:
        """The master secret of the session of this id or ticket."""
        return self._sessions.get(session)

    def __len__(self) -> int:
        return len(self._secrets)

    def __repr__(self) -> str:
        return f"<KeyLog: {len(self)} secrets>"
