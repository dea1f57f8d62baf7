"""A study of seconds, and its record without the times."""

from cutlayer.experiment.study import Study
from cutlayer.report.row import CLOCK
from cutlayer.settings import Settings

ATTACKS = ("model-completion:labels=6,epochs=2,steps=4", "norm-score", "binary-equations")


def make(**changes):
    given = {"data": "wine", "defences": ("none", "gaussian-noise:std=0.5"), "attacks": ATTACKS, "seeds": (0, 1)}
    training = Settings(epochs=changes.pop("epochs", 3), batch_size=32)
    return Study(**{**given, "training": training, **changes})


def timeless(record):
    return [{key: value for key, value in row.items() if key not in CLOCK} for row in record.rows]
