"""What a hole in the capture needs: the next frame start, the requests of the answers that are left, broken lengths."""
