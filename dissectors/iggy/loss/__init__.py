"""Behind a hole in the capture: the next frame start, the requests of the answers that are left, broken lengths."""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
