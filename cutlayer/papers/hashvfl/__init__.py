"""Qiu et al.: HashVFL."""
