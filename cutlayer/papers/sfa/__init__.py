"""Cai et al.: secure forward aggregation."""
