"""The product's own errors: one clear sentence each."""

from __future__ import annotations


class BrokerscopeError(Exception):
    """Something a user can act on."""

    user_error = True


class InputError(BrokerscopeError):
    """A capture cannot be read at all."""


class TruncatedError(BrokerscopeError):
    """A capture ends early or is damaged; what came before is good."""
