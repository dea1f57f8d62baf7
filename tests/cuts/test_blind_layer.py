"""Blind layer."""
