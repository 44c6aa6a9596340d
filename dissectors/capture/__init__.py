"""Files to packets: the only floor that knows containers and link layers."""
