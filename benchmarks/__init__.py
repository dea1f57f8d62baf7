"""Each prints a ratio. A package, so that a library's own `benchmarks` (Opacus has one) is not imported instead."""
