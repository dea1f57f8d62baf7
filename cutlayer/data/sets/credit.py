"""UCI Default of Credit Card Clients (Taiwan): will the client fail to pay next month?"""

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call
from cutlayer.data.prepare import Raw, class_numbers, numbers, read_delimited
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.data.zero_one import zero_one

CREDIT = About(
    "credit", 30_000, 23, 2, "credit card clients who fail to pay", "binary reconstruction", "UCI, CC BY 4.0"
)
_FILE = File(
    "default_credit/UCI_Credit_Card.csv",
    hint="The CSV is Kaggle's edition of UCI data set 350 (uciml/default-of-credit-card-clients-dataset).",
)
_LABEL = "default.payment.next.month"


def credit(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """LIMIT_BAL to PAY_5 (ten columns) go to party 2, the rest to party 1; 90/10 random split.

    Of the ten, only SEX has two values.
    """
    call = Call.of(locals())
    return zero_one(CREDIT, call, parse(read(_FILE)), first=10)


def parse(data: bytes) -> Raw:
    """Read the comma-separated file with a header; `ID` is left out and the label is last."""
    table = read_delimited(data)
    names = tuple(name for name in table if name not in ("ID", _LABEL))
    values = np.stack([numbers(name, table[name]) for name in names], axis=1)
    return Raw(values, names, class_numbers(table, _LABEL, 2), ("paid", "default"))
