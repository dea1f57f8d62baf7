"""A message as bytes, and bytes in order over streams that break."""
