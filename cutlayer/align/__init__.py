"""Alignment: which rows do all parties have in common, in one order, and nothing else (private set intersection).

`read_ids` makes a column's ids alike; `lead` is the label party's talk and `follow` a feature party's. Each returns
the party's own row numbers in the common order. psi.py says who learns what.
"""

from cutlayer.align.ids import Ids, Rule, read_ids
from cutlayer.align.psi import follow, lead

__all__ = ["Ids", "Rule", "follow", "lead", "read_ids"]
