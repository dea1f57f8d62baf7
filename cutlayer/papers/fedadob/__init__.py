"""Gu et al.: FedAdOb, vertical."""
