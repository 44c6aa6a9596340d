"""For all tests: machines are noisy, so no example of a property fails for being slow."""

from __future__ import annotations

from hypothesis import settings

settings.register_profile("noisy", deadline=None)
settings.load_profile("noisy")
