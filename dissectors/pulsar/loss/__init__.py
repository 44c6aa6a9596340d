"""What a hole in the capture needs: where frames begin again, which request an answer belongs to."""
