"""The halves that secure cuts are made of."""
