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
from cutlayer.data.avazu import AVAZU, avazu
from cutlayer.data.bank import BANK, bank
from cutlayer.data.bankruptcy import BANKRUPTCY, bankruptcy
from cutlayer.data.breast_cancer import BREAST_CANCER, breast_cancer
from cutlayer.data.cifar10 import CIFAR10, cifar10
from cutlayer.data.covertype import COVERTYPE, covertype
from cutlayer.data.credit import CREDIT, credit
from cutlayer.data.criteo import CRITEO, criteo
from cutlayer.data.digits import DIGITS, digits
from cutlayer.data.fate import (
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
from cutlayer.data.fer2013 import FER2013, fer2013
from cutlayer.data.higgs import HIGGS, higgs
from cutlayer.data.imdb import IMDB, imdb
from cutlayer.data.mnist import FASHION_MNIST, MNIST, fashion_mnist, mnist
from cutlayer.data.mushroom import MUSHROOM, mushroom
from cutlayer.data.newsgroups import NEWSGROUPS, newsgroups
from cutlayer.data.nursery import NURSERY, nursery
from cutlayer.data.porto_seguro import PORTO_SEGURO, porto_seguro
from cutlayer.data.sensorless import SENSORLESS, sensorless
from cutlayer.data.table import table
from cutlayer.data.task import Column, ColumnKind, Features, Goal, Task
from cutlayer.data.wine import WINE, wine

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
