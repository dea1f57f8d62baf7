"""Ye et al.: feature reconstruction of binary columns."""
