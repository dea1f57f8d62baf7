"""Binary columns in linear messages: the span that the messages give away, and searches for 0/1 vectors in it."""
