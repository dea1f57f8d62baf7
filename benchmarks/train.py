"""Print the ratio of split training to a plain loop: `python benchmarks/train.py` or `cutlayer bench train`."""

from cutlayer.cli import main

raise SystemExit(main(["bench", "train"]))
