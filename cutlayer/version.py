"""The version, on its own so that nothing heavy is imported for it."""

__version__ = "0.1.0"
