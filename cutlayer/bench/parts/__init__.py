"""What several benchmarks share; a benchmark itself is a file beside this folder."""
