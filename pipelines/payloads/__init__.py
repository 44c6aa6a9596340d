"""Keys and values of messages as what they mean: by schemas that are given, that the wire carries, or by their form."""
