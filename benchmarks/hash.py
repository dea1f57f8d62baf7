"""Print the cost of hashing as a ratio: `python benchmarks/hash.py` or `cutlayer bench hash`."""

from cutlayer.cli import main

raise SystemExit(main(["bench", "hash"]))
