"""Tasks: public datasets by name, and a user's own table.

Every dataset is a function of keyword arguments with a shared meaning:

parties      how many parties hold columns; they are called party1, party2 and so on
label_party  None: party1 holds the labels beside its columns; a new name: a party with labels only
seed         of every random choice the loader makes (split, dealing out, balancing, limit)
limit        keep so many training rows, and test rows in proportion, drawn class by class
"""

import inspect
from collections.abc import Callable
from typing import Any

from cutlayer._validate import one_of
from cutlayer.data.about import About
from cutlayer.data.sets.avazu import AVAZU, avazu
from cutlayer.data.sets.bank import BANK, bank
from cutlayer.data.sets.bankruptcy import BANKRUPTCY, bankruptcy
from cutlayer.data.sets.breast_cancer import BREAST_CANCER, breast_cancer
from cutlayer.data.sets.cifar10 import CIFAR10, cifar10
from cutlayer.data.sets.covertype import COVERTYPE, covertype
from cutlayer.data.sets.credit import CREDIT, credit
from cutlayer.data.sets.criteo import CRITEO, criteo
from cutlayer.data.sets.digits import DIGITS, digits
from cutlayer.data.sets.fate import (
    FATE_BREAST,
    FATE_DEFAULT_CREDIT,
    FATE_DVISITS,
    FATE_IONOSPHERE,
    FATE_MOTOR,
    FATE_STUDENT,
    FATE_VEHICLE,
    fate_breast,
    fate_default_credit,
    fate_dvisits,
    fate_ionosphere,
    fate_motor,
    fate_student,
    fate_vehicle,
)
from cutlayer.data.sets.fer2013 import FER2013, fer2013
from cutlayer.data.sets.higgs import HIGGS, higgs
from cutlayer.data.sets.imdb import IMDB, imdb
from cutlayer.data.sets.mnist import FASHION_MNIST, MNIST, fashion_mnist, mnist
from cutlayer.data.sets.mushroom import MUSHROOM, mushroom
from cutlayer.data.sets.newsgroups import NEWSGROUPS, newsgroups
from cutlayer.data.sets.nursery import NURSERY, nursery
from cutlayer.data.sets.porto_seguro import PORTO_SEGURO, porto_seguro
from cutlayer.data.sets.sensorless import SENSORLESS, sensorless
from cutlayer.data.sets.wine import WINE, wine
from cutlayer.data.tables.table import table
from cutlayer.data.task import Column, ColumnKind, Features, Goal, Task

_DATASETS: tuple[tuple[About, Callable[..., Task]], ...] = (
    (DIGITS, digits),
    (BREAST_CANCER, breast_cancer),
    (WINE, wine),
    (MNIST, mnist),
    (FASHION_MNIST, fashion_mnist),
    (CIFAR10, cifar10),
    (FER2013, fer2013),
    (CRITEO, criteo),
    (AVAZU, avazu),
    (BANK, bank),
    (CREDIT, credit),
    (MUSHROOM, mushroom),
    (NURSERY, nursery),
    (COVERTYPE, covertype),
    (SENSORLESS, sensorless),
    (BANKRUPTCY, bankruptcy),
    (NEWSGROUPS, newsgroups),
    (IMDB, imdb),
    (PORTO_SEGURO, porto_seguro),
    (HIGGS, higgs),
    (FATE_BREAST, fate_breast),
    (FATE_VEHICLE, fate_vehicle),
    (FATE_DEFAULT_CREDIT, fate_default_credit),
    (FATE_IONOSPHERE, fate_ionosphere),
    (FATE_MOTOR, fate_motor),
    (FATE_STUDENT, fate_student),
    (FATE_DVISITS, fate_dvisits),
)


def names() -> tuple[str, ...]:
    """Names of all datasets that `load` knows."""
    return tuple(about.name for about, _ in _DATASETS)


def describe() -> list[About]:
    """What is known of every dataset, without opening a file."""
    return [about for about, _ in _DATASETS]


def load(name: str, **options: Any) -> Task:
    """Make a task by the name of its dataset, as a saved `Task.source` holds it."""
    one_of("dataset", name, names())
    loader = next(function for about, function in _DATASETS if about.name == name)
    allowed = list(inspect.signature(loader).parameters)
    for option in options:
        one_of(f"option of {name}", option, allowed)
    return loader(**options)


__all__ = [
    "About",
    "Column",
    "ColumnKind",
    "Features",
    "Goal",
    "Task",
    "avazu",
    "bank",
    "bankruptcy",
    "breast_cancer",
    "cifar10",
    "covertype",
    "credit",
    "criteo",
    "describe",
    "digits",
    "fashion_mnist",
    "fate_breast",
    "fate_default_credit",
    "fate_dvisits",
    "fate_ionosphere",
    "fate_motor",
    "fate_student",
    "fate_vehicle",
    "fer2013",
    "higgs",
    "imdb",
    "load",
    "mnist",
    "mushroom",
    "names",
    "newsgroups",
    "nursery",
    "porto_seguro",
    "sensorless",
    "table",
    "wine",
]
