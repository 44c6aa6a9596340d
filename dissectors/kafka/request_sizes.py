"""What a client speaks on a connection, and how long its requests usually are: it tells what was in a hole."""

from __future__ import annotations

from typing import final

from dissectors.compiling import cython
from dissectors.compiling.marks import compiled
from dissectors.compiling.state import carried
from dissectors.kafka.decode import ApiVersion

SIZES = 4000  # lengths that are remembered of a connection

_HABIT = 3  # requests of one length that make it the usual length


@final
@carried
@compiled
class RequestSizes:
    """How often the requests of a connection were how long. The last ones, of one API and size, are counted apart."""

    apis: tuple[ApiVersion, ...]
    times: dict[tuple[int, int, int], int]  # by size, API and version
    last_api: ApiVersion | None = None
    last_size: cython.longlong = 0
    last_times: cython.longlong = 0

    def __init__(self) -> None:
        self.apis = ()
        self.times = {}

    @compiled
    def note(self, api: ApiVersion, size: cython.longlong) -> None:
        """A request was so long."""
        if api is self.last_api and size == self.last_size:
            self.last_times += 1
            return
        self._add()
        self.last_api, self.last_size, self.last_times = api, size, 1
        if api not in self.apis:
            self.apis += (api,)

    def usual(self, api: ApiVersion, size: int) -> bool:
        """Whether requests of an API usually are so long."""
        self._add()
        return self.times.get((size, api.key, api.version), 0) >= _HABIT

    @compiled
    def _add(self) -> None:
        """Count the last ones with the others."""
        if self.last_times and self.last_api is not None:
            key = (self.last_size, self.last_api.key, self.last_api.version)
            known = self.times.get(key, 0)
            if known or len(self.times) < SIZES:
                self.times[key] = known + self.last_times
        self.last_times = 0
