"""HIGGS: collisions with or without a Higgs boson. The sample that LightGBM ships as an example."""

import io

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, given_parts
from cutlayer.data.prepare import Raw, standardise
from cutlayer.data.source import File, read
from cutlayer.data.split import evenly
from cutlayer.data.task import Task
from cutlayer.errors import DataError

HIGGS = About("higgs", 7500, 28, 2, "particle collisions; LightGBM's sample", terms="UCI, CC BY 4.0; sample MIT")
_BASE = "https://raw.githubusercontent.com/microsoft/LightGBM/v4.5.0/examples/binary_classification"
_TRAIN = File(
    "higgs_sample/binary.train",
    f"{_BASE}/binary.train",
    sha256="41c42dc14f86960256bf872fc8ae6286c688b44f43b4057b29428787fc1e0444",
)
_TEST = File(
    "higgs_sample/binary.test",
    f"{_BASE}/binary.test",
    sha256="d99ebec91acd99638f00c727c251c947a1d17ddfcbea27bfef6b0dc5e5fb1db3",
)


def higgs(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """All 28 columns, standardised on training rows, in blocks; the sample's own 7,000/500 split."""
    call = Call.of(locals())
    train, test = parse(read(_TRAIN)), parse(read(_TEST))
    values = np.concatenate([train.values, test.values])
    HIGGS.check(*values.shape)
    parts = given_parts(len(train.labels), len(test.labels))
    return assemble_table(
        HIGGS,
        call,
        standardise(values, parts[0].numpy()),
        train.names,
        np.concatenate([train.labels, test.labels]),
        train.classes,
        evenly(values.shape[1], parties),
        parts,
        ("a sample of 7,500 of 11,000,000 rows, rounded to three decimals",),
    )


def parse(data: bytes) -> Raw:
    """Read the tab-separated file without a header; the label is first."""
    try:
        table = np.loadtxt(io.BytesIO(data), delimiter="\t", ndmin=2)
    except ValueError as error:
        raise DataError(f"Expected rows of numbers in the HIGGS sample: {error}.") from error
    names = tuple(f"x{number}" for number in range(1, table.shape[1]))
    return Raw(table[:, 1:], names, table[:, 0].astype(np.int64), ("background", "signal"))
