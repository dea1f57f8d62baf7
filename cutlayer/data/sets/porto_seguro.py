"""Porto Seguro safe driver prediction (Kaggle 2017): will the driver file a claim? The first 10,000 rows."""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, random_parts
from cutlayer.data.prepare import Raw, class_numbers, min_max, numbers, read_delimited
from cutlayer.data.source import File, read
from cutlayer.data.split import evenly
from cutlayer.data.task import Task

PORTO_SEGURO = About(
    "porto-seguro",
    10_000,
    57,
    2,
    "drivers who file a claim; first 10,000 rows",
    terms="Kaggle competition rules",
)
_FILE = File(
    "porto_seguro/porto_seguro_train_first10000.csv",
    hint="It is the first 10,001 lines of train.csv on Kaggle (porto-seguro-safe-driver-prediction).",
)


def porto_seguro(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """All 57 columns in [0, 1] as they are numbered, in blocks; 80/20 split by class.

    Min-max scaling is by training rows, so test values may lie a little outside.
    """
    call = Call.of(locals())
    raw = parse(read(_FILE))
    PORTO_SEGURO.check(*raw.values.shape)
    parts = random_parts(PORTO_SEGURO, call, raw.labels, test=0.2)
    values = min_max(raw.values, rows=parts[0].numpy())
    notes = ("the first 10,000 of 595,212 rows; missing values stay -1 before min-max on training rows",)
    shares = evenly(len(raw.names), parties)
    return assemble_table(PORTO_SEGURO, call, values, raw.names, raw.labels, raw.classes, shares, parts, notes)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file with a header; `id` is left out."""
    table = read_delimited(data)
    names = tuple(name for name in table if name not in ("id", "target"))
    values = np.stack([numbers(name, table[name]) for name in names], axis=1)
    return Raw(values, names, class_numbers(table, "target", 2), ("no claim", "claim"))
