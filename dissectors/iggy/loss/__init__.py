"""Behind a hole in the capture: the next frame start, the requests of the answers that are left, broken lengths."""
