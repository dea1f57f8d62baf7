"""Taiwan company bankruptcy: 95 financial ratios of 6,819 companies; 220 of them failed."""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, by_rounded_share
from cutlayer.data.prepare import Raw, class_numbers, numbers, read_delimited
from cutlayer.data.smote import resample
from cutlayer.data.source import File, read
from cutlayer.data.task import Task

BANKRUPTCY = About(
    "bankruptcy", 6819, 95, 2, "financial ratios of companies that failed or not", "HashVFL", "UCI, CC BY 4.0"
)
_FILE = File(
    "company_bankruptcy/data.csv",
    hint="It is data.csv of UCI data set 572 (archive.ics.uci.edu/dataset/572).",
)
_LABEL = "Bankrupt?"


def bankruptcy(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    smote: str = "before",
    scaled: bool = False,
) -> Task:
    """HashVFL's preparation: raw ratios, balanced by SMOTE before a 70/30 split by class.

    smote="train" makes rows from training rows only, "none" makes none; scaled=True standardises
    the columns first, which by itself explains most of what hashing seems to gain here.
    """
    call = Call.of(locals())
    raw = parse(read(_FILE))
    BANKRUPTCY.check(*raw.values.shape)
    resampled = resample(raw.values, raw.labels.astype(np.int64), mode=smote, scaled=scaled, test=0.3, seed=seed)
    shares = by_rounded_share(len(raw.names), parties)
    return assemble_table(
        BANKRUPTCY,
        call,
        resampled.values,
        raw.names,
        resampled.labels,
        raw.classes,
        shares,
        resampled.parts,
        resampled.notes,
    )


def parse(data: bytes) -> Raw:
    """Read the comma-separated file with a header; the label is first."""
    table = read_delimited(data)
    names = tuple(name for name in table if name != _LABEL)
    values = np.stack([numbers(name, table[name]) for name in names], axis=1)
    return Raw(values, names, class_numbers(table, _LABEL, 2), ("going", "bankrupt"))
