"""Files to packets: the only floor that knows containers and link layers."""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)

from dissectors.capture.files import expand, site_of
from dissectors.capture.split import Split, plan, read_split

__all__ = ["Split", "expand", "plan", "read_split", "site_of"]
