"""UCI Mushroom: edible or poisonous, from 22 categorical traits."""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call
from cutlayer.data.prepare import Raw, codes, read_delimited
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.data.zero_one import zero_one

MUSHROOM = About("mushroom", 8124, 21, 2, "edible or poisonous", "binary reconstruction", "UCI, CC BY 4.0")
_FILE = File(
    "mushroom/agaricus-lepiota.data",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/mushroom/agaricus-lepiota.data",
    sha256="e65d082030501a3ebcbcd7c9f7c71aa9d28fdfff463bf4cf4716a3fe13ac360e",
)
_NAMES = (
    "class", "cap-shape", "cap-surface", "cap-color", "bruises", "odor", "gill-attachment", "gill-spacing",
    "gill-size", "gill-color", "stalk-shape", "stalk-root", "stalk-surface-above-ring",
    "stalk-surface-below-ring", "stalk-color-above-ring", "stalk-color-below-ring", "veil-type", "veil-color",
    "ring-number", "ring-type", "spore-print-color", "population", "habitat",
)  # fmt: skip


def mushroom(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """The first 15 columns go to party 2, the rest to party 1; 90/10 random split.

    Of the 15, bruises, gill-attachment, gill-spacing, gill-size and stalk-shape have two values.
    """
    call = Call.of(locals())
    return zero_one(MUSHROOM, call, parse(read(_FILE)), first=15)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file without a header; the label is first, veil-type never varies."""
    table = read_delimited(data, names=_NAMES)
    labels, _ = codes(table["class"])
    names = tuple(name for name in _NAMES if name not in ("class", "veil-type"))
    values = np.stack([codes(table[name])[0].astype(np.float64) for name in names], axis=1)
    return Raw(values, names, labels, ("edible", "poisonous"))
