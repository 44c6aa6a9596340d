"""Which versions a broker serves, by its own answer to ApiVersions."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from dissectors.kafka.decode import ApiVersion
from dissectors.kafka.full import full

_ANSWERS = 256  # different answers that are kept; brokers of one release give the same


class VersionsAnswer(NamedTuple):
    """The body of an answer to ApiVersions."""

    version: int
    body: bytes


@lru_cache(_ANSWERS)
def shared(answer: VersionsAnswer) -> VersionsAnswer:
    """An equal answer, one for all connections that got it."""
    return answer


@lru_cache(_ANSWERS)
def _served(answer: VersionsAnswer) -> Mapping[int, tuple[int, int]]:
    """Key of each API in an answer -> its lowest and its highest version."""
    found = full("ApiVersionsResponse", answer.version, answer.body, 0, len(answer.body))
    listed = found.body.get("apiKeys") or ()
    return {api["apiKey"]: (api["minVersion"], api["maxVersion"]) for api in listed if "maxVersion" in api}


def refusal(answer: VersionsAnswer, api: ApiVersion) -> str | None:
    """What an answer says against a request of this version; None where the broker serves it."""
    served = _served(answer)
    if not served:
        return None
    lowest, highest = served.get(api.key, (0, -1))
    if lowest <= api.version <= highest:
        return None
    if highest < lowest:
        return f"the broker does not serve {api.name}"
    return f"the broker serves {api.name} versions {lowest} to {highest}, not {api.version}"
