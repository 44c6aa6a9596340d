"""The product's own errors: one clear sentence each."""

from __future__ import annotations

from dissectors.redaction import public_path


class BrokerscopeError(Exception):
    """Something a user can act on. Its text holds no password of a URL."""

    def __init__(self, text: str = "") -> None:
        super().__init__(public_path(text))


class InputError(BrokerscopeError):
    """A capture cannot be read at all."""


class NoNameError(BrokerscopeError):
    """A path is empty, as where a shell's variable is not set."""


class TruncatedError(BrokerscopeError):
    """A capture ends early or is damaged; what came before is good."""
