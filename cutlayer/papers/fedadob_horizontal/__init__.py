"""Gu et al.: FedAdOb, horizontal."""
