"""UCI Bank Marketing: telephone calls by a bank; did the client take the deposit?"""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call
from cutlayer.data.prepare import Raw, codes, numbers_or_codes, read_delimited, take
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.data.zero_one import zero_one

BANK = About("bank", 41_188, 20, 2, "a bank's telephone marketing", "binary reconstruction", "UCI, CC BY 4.0")
_FILE = File(
    "bank_marketing/bank-additional-full.csv",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00222/bank-additional.zip",
    member="bank-additional/bank-additional-full.csv",
    sha256="74adfc578bf77a7ff4bb1ba4a9f8709d9e3c6907342959c2c8416847e0afb4d8",
)


def bank(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """Clients' columns (age to contact) go to party 2, the rest to party 1; 90/10 random split.

    Of the eight, only `contact` has two values: housing, loan and default also have "unknown".
    """
    call = Call.of(locals())
    return zero_one(BANK, call, parse(read(_FILE)), first=8)


def parse(data: bytes) -> Raw:
    """Read the semicolon-separated file with a header; the label `y` is last."""
    table = read_delimited(data, delimiter=";")
    labels, classes = codes(take(table, "y"))
    names = tuple(name for name in table if name != "y")
    values = np.stack([numbers_or_codes(name, table[name]) for name in names], axis=1)
    return Raw(values, names, labels, classes)
