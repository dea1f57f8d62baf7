"""Avazu click-through rate (Kaggle 2014): was a mobile advertisement clicked? Two small samples."""

from dataclasses import replace

import numpy as np

from cutlayer._validate import one_of
from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, random_parts
from cutlayer.data.prepare import Raw, balanced, by_frequency, class_numbers, min_max, read_delimited
from cutlayer.data.source import File, read
from cutlayer.data.split import at_random
from cutlayer.data.task import Task
from cutlayer.rng import numpy_generator

AVAZU = About(
    "avazu",
    15_000,
    21,
    2,
    "clicks on mobile advertisements; a sample",
    "VFLRecon",
    "Kaggle competition rules",
)
_HINT = "The samples have no public address: the full set is on Kaggle (avazu-ctr-prediction)."
_SAMPLES = {
    "random": (AVAZU, File("avazu/avazu_random_15000.csv", hint=_HINT)),
    "first-hour": (
        replace(AVAZU, rows=8999, columns=22),
        File("avazu/avazu_first_hour_8999.csv", hint=_HINT),
    ),
}


def avazu(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    sample: str = "random",
    balance: bool = True,
) -> Task:
    """VFLRecon's preparation: frequency-ranked codes in [-1, 1], as many clicks as not; 80/20 split.

    sample="random" has 15,000 rows of all hours without device_ip; "first-hour" has 8,999 rows of
    the first hour with all 22 columns. Columns are dealt out at random.
    """
    call = Call.of(locals())
    one_of("sample", sample, _SAMPLES)
    about, file = _SAMPLES[sample]
    raw = parse(read(file))
    about.check(*raw.values.shape)
    rows = np.arange(len(raw.labels))
    notes = [f"a sample ({sample}) of {about.rows} of 40,428,967 rows"]
    if balance:
        rows = balanced(raw.labels, numpy_generator(seed, "data", "avazu", "balance"))
        notes.append("rows without a click thinned out to as many as with one, test part too")
    notes.append("every column as codes ranked by frequency over the sample, then min-max to [-1, 1]")
    labels = raw.labels[rows]
    shares = at_random(len(raw.names), parties, numpy_generator(seed, "data", "avazu", "columns"))
    parts = random_parts(about, call, labels, test=0.2)
    values = min_max(raw.values[rows], -1, 1)
    return assemble_table(about, call, values, raw.names, labels, raw.classes, shares, parts, notes)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file with a header; `id`, if there, is left out."""
    table = read_delimited(data)
    names = tuple(name for name in table if name not in ("id", "click"))
    values = np.stack([by_frequency(table[name]).astype(np.float64) for name in names], axis=1)
    return Raw(values, names, class_numbers(table, "click", 2), ("no click", "click"))
