"""A guess and its truth, for tests of measures."""

import torch

from cutlayer.attack import Guess
from cutlayer.finding import Form
from cutlayer.metrics.measure import Case


def case(form: Form, values: torch.Tensor, **facts: object) -> Case:
    """An attacker without columns of its own and without hints; `facts` set the rest."""
    about = {key: facts.pop(key) for key in ("groups", "wanted", "unordered") if key in facts}
    known: dict[str, object] = {
        "attacker": "shop",
        "victim": "bank",
        "labels": torch.zeros(len(values), dtype=torch.int64),
        "features": lambda: torch.zeros(len(values), 1),
        "mean": lambda: torch.zeros(1),
        "own": lambda: None,
        "known": None,
        "known_own": None,
        "predict": None,
    }
    return Case(guess=Guess(torch.arange(len(values)), values, form, **about), **{**known, **facts})
