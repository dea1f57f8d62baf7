"""UCI Sensorless Drive Diagnosis: eleven states of an electric motor, from its currents."""

import io
from dataclasses import replace

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, random_parts
from cutlayer.data.prepare import Raw, min_max
from cutlayer.data.source import MB, File, read
from cutlayer.data.split import at_random
from cutlayer.data.task import Task
from cutlayer.errors import DataError
from cutlayer.rng import numpy_generator

SENSORLESS = About(
    "sensorless",
    2200,
    48,
    11,
    "states of a motor; a sample of 200 rows a class",
    "VFLRecon",
    "UCI, CC BY 4.0",
)
_FULL = replace(SENSORLESS, rows=58_509)
_FULL_FILE = File(
    "sensorless_drive/Sensorless_drive_diagnosis.txt",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/00325/Sensorless_drive_diagnosis.txt",
    size=64 * MB,
)
_SAMPLE_FILE = File(
    "sensorless_drive/Sensorless_drive_diagnosis.balanced2200.txt",
    hint="The sample has no public address: full=True reads or downloads the whole set.",
)


def sensorless(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    full: bool = False,
) -> Task:
    """All 48 columns in [-1, 1], dealt out at random; 80/20 split by class.

    Min-max scaling is over all rows. By default a balanced sample of 2,200 rows is read;
    full=True reads all 58,509.
    """
    call = Call.of(locals())
    about = _FULL if full else SENSORLESS
    raw = parse(read(_FULL_FILE if full else _SAMPLE_FILE))
    about.check(*raw.values.shape)
    notes = ["columns min-max scaled to [-1, 1] over all rows"]
    if not full:
        notes.append("a class-balanced sample of 2,200 of 58,509 rows")
    shares = at_random(48, parties, numpy_generator(seed, "data", "sensorless", "columns"))
    parts = random_parts(about, call, raw.labels, test=0.2)
    values = min_max(raw.values, -1, 1)
    return assemble_table(about, call, values, raw.names, raw.labels, raw.classes, shares, parts, notes)


def parse(data: bytes) -> Raw:
    """Read the space-separated file without a header; the label, 1 to 11, is last."""
    try:
        table = np.loadtxt(io.BytesIO(data), ndmin=2)
    except ValueError as error:
        raise DataError(f"Expected rows of numbers in the Sensorless Drive file: {error}.") from error
    names = tuple(f"x{number}" for number in range(1, table.shape[1]))
    return Raw(table[:, :-1], names, table[:, -1].astype(np.int64) - 1, tuple(str(n) for n in range(1, 12)))
