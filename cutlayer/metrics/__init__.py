"""Utility and leakage: pure functions on arrays."""
