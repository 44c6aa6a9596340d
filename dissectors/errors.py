"""The product's own errors: one clear sentence each."""

from __future__ import annotations

from dissectors.redaction import public_path


class BrokerscopeError(Exception):
    """Something a user can act on. Its text holds no password of a URL."""

    def __init__(self, text: str = "") -> None:
        super().__init__(public_path(text))


class LostProcessError(BrokerscopeError):
    """Another process that decodes has ended before its work did."""

    def __init__(self, exitcode: int | None) -> None:
        """exitcode: as of multiprocessing, so minus the signal of a process that was killed; None: not known."""
        if exitcode is None:
            how = "was killed"
        else:
            how = f"was killed by signal {-exitcode}" if exitcode < 0 else f"ended with exit code {exitcode}"
        super().__init__(f"a decoding process {how}; with --jobs 1 less memory is needed")


class InputError(BrokerscopeError):
    """A capture cannot be read at all."""


class UsageError(BrokerscopeError):
    """What was asked for means nothing: an empty path, an option that is not there, a value out of its range."""


class TruncatedError(BrokerscopeError):
    """A capture ends early or is damaged; what came before is good."""

    def __init__(self, text: str, rest: bytes = b"", remaining: int | None = None) -> None:
        """rest: the bytes at hand from the damage on; remaining: how many more of them may be read, None for all."""
        super().__init__(text)
        self.rest = rest
        self.remaining = remaining
