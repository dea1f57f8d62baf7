"""UCI Covertype: seven kinds of forest, from maps."""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call
from cutlayer.data.prepare import Raw
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.data.zero_one import zero_one
from cutlayer.errors import DataError

COVERTYPE = About("covertype", 581_012, 54, 7, "kinds of forest", "binary reconstruction", "UCI, CC BY 4.0")
_FILE = File(
    "covertype/covtype.data",
    "https://archive.ics.uci.edu/ml/machine-learning-databases/covtype/covtype.data.gz",
    sha256="0a9371cef7c964b5475d6053cc3e0894a5aa6f65ad1ed3ecb01c45aa96217945",
)
_QUANTITIES = (
    "elevation", "aspect", "slope", "horizontal_distance_to_hydrology", "vertical_distance_to_hydrology",
    "horizontal_distance_to_roadways", "hillshade_9am", "hillshade_noon", "hillshade_3pm",
    "horizontal_distance_to_fire_points",
)  # fmt: skip
_NAMES = (
    *_QUANTITIES,
    *(f"wilderness_area_{number}" for number in range(1, 5)),
    *(f"soil_type_{number}" for number in range(1, 41)),
)


def covertype(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """The last six quantities and four wilderness indicators go to party 2; 90/10 random split.

    The other 44 columns (four quantities, 40 soil types) go to party 1. Of party 2's ten, the
    four indicators have two values.
    """
    call = Call.of(locals())
    raw = parse(read(_FILE))
    order = [*range(4, 14), *range(4), *range(14, 54)]
    moved = Raw(raw.values[:, order], tuple(raw.names[place] for place in order), raw.labels, raw.classes)
    return zero_one(COVERTYPE, call, moved, first=10)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file of whole numbers without a header; the label, 1 to 7, is last."""
    width = len(_NAMES) + 1
    try:
        text = data.decode("ascii").strip()
        flat = np.fromstring(text.replace("\n", ","), dtype=np.int32, sep=",")
    except (ValueError, DeprecationWarning) as error:
        raise DataError(f"Expected whole numbers in covtype.data: {error}.") from error
    if len(flat) % width or text.count("\n") != len(flat) // width - 1:
        raise DataError(f"Expected {width} numbers in every row of covtype.data, got {len(flat)} numbers in all.")
    table = flat.reshape(-1, width)
    labels = table[:, -1].astype(np.int64) - 1
    return Raw(table[:, :-1].astype(np.float64), _NAMES, labels, tuple(str(kind) for kind in range(1, 8)))
