"""What a hole in the capture, or a wrong length, needs: the next frame start, batches, what answers belong to."""

from dissectors.compiling.loading import prefer_compiled

prefer_compiled(__path__)
