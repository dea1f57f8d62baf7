"""UCI Nursery: applications to a nursery school, ranked into five classes."""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call
from cutlayer.data.prepare import Raw, codes, read_delimited
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.data.zero_one import zero_one

NURSERY = About("nursery", 12_960, 8, 5, "nursery school applications", "binary reconstruction", "UCI, CC BY 4.0")
_FILE = File(
    "nursery/nursery.data",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/nursery/nursery.data",
    sha256="8e0389c3dd37590248a921c2726d869ee96b817761a35eb8416afa24f31f931d",
)
_NAMES = ("parents", "has_nurs", "form", "children", "housing", "finance", "social", "health", "class")


def nursery(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """The first six columns (parents to finance) go to party 2, the rest to party 1; 90/10 random split.

    Of the six, only `finance` has two values. Class "recommend" has two rows in all.
    """
    call = Call.of(locals())
    return zero_one(NURSERY, call, parse(read(_FILE)), first=6)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file without a header; the label is last."""
    table = read_delimited(data, names=_NAMES)
    labels, classes = codes(table["class"])
    values = np.stack([codes(table[name])[0].astype(np.float64) for name in _NAMES[:-1]], axis=1)
    return Raw(values, _NAMES[:-1], labels, classes)
