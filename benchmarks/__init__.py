"""Each prints a ratio. A package, so that none that a library brings along (Opacus does) is taken for it."""
