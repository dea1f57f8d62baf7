"""The vertically split pairs that FATE ships: one file with the label, one without.

The file with the label (FATE's guest) goes to party 1, the other (its host) to party 2, or is
shared evenly by parties 2 and up. Both list the same ids in the same order.
"""

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, first_to_others, random_parts
from cutlayer.data.prepare import Raw, numbers, read_delimited, standardise, take
from cutlayer.data.source import File, read
from cutlayer.data.task import Task
from cutlayer.errors import DataError

_TERMS = "repository Apache-2.0"
FATE_BREAST = About("fate-breast", 569, 30, 2, "FATE's breast cancer pair", terms=f"{_TERMS}; UCI")
FATE_VEHICLE = About("fate-vehicle", 846, 18, 4, "FATE's vehicle silhouettes pair", terms=f"{_TERMS}; UCI")
FATE_DEFAULT_CREDIT = About("fate-default-credit", 30_000, 23, 2, "FATE's credit default pair", terms=f"{_TERMS}; UCI")
FATE_IONOSPHERE = About("fate-ionosphere", 351, 34, 2, "FATE's radar returns pair", terms=f"{_TERMS}; UCI")
FATE_MOTOR = About("fate-motor", 800, 11, 0, "FATE's motor speed pair", terms=f"{_TERMS}; Kaggle")
FATE_STUDENT = About("fate-student", 395, 13, 0, "FATE's school grades pair", terms=f"{_TERMS}; UCI")
FATE_DVISITS = About("fate-dvisits", 5190, 12, 0, "FATE's doctor visits pair", terms=f"{_TERMS}; Cameron and Trivedi")


@dataclass(frozen=True, slots=True)
class _Pair:
    stem: str
    label: str
    guest_sha256: str
    host_sha256: str


_PAIRS = {
    "fate-breast": _Pair(
        "breast",
        "y",
        "6b258b1514181bd645ea37a9ba3795a014075f465dfa51af08ecf19f068baeae",
        "8f9edc41763176ba12598f86646a177e347c1b85b5549896044f9532d964ea6f",
    ),
    "fate-vehicle": _Pair(
        "vehicle_scale",
        "y",
        "43034770a34993675fdf34525f7f20805f1570066dfcb31f6145d5a70204a7ed",
        "ded56f6e71c96e9305f7bc3f283dc5e9e25ec52ede13d7db4ab6a86218e3314c",
    ),
    "fate-default-credit": _Pair(
        "default_credit",
        "y",
        "4fd6be40766423cd4fd567f3ed4162f9ec512388a2eab2f265f46247c5ae90b0",
        "36880a1b1e6a5b85bcb1e7d8b58cb2b024b45422ec29881c8df562e17c4bc6b7",
    ),
    "fate-ionosphere": _Pair(
        "ionosphere_scale",
        "label",
        "8062debd85ef3806e2d8bbbfcb132efec3f945f141a6c404fc219e8e9eae377e",
        "d727bfe87e83b2193239ef4b9bebd3138d77707527b15e047e1222b34909a84a",
    ),
    "fate-motor": _Pair(
        "motor",
        "motor_speed",
        "65180fb9f3d0dbf6c154bc286dce9e6cb839de16c11947eb6fb94c5446662f35",
        "f4389617b116fe5ebd024448f8e77032cdf701449bb8ecea13917417e9415fd7",
    ),
    "fate-student": _Pair(
        "student",
        "y",
        "57af2a1697f94a13ecdf6113718d3392312b12cc4214eb5f42c1eacce9d527ed",
        "9152ecad7fbdc63c899b25791248bded2ee9228dfcf8ef75f6629996a507cf26",
    ),
    "fate-dvisits": _Pair(
        "dvisits",
        "doctorco",
        "0286edeeb60868ea486969f35a9591b6cc62e03848e458018c515278c189a431",
        "dd20081f488112de05b65a5a783fc687fdfdce21d54abc4db888ec874d525bc1",
    ),
}
_URL = "https://raw.githubusercontent.com/FederatedAI/FATE/v1.11.4/examples/data"


class PairLoader(Protocol):
    """What loads one of the pairs."""

    def __call__(
        self,
        *,
        parties: int = 2,
        label_party: str | None = None,
        seed: int = 0,
        limit: int | None = None,
        scaled: bool = False,
    ) -> Task:
        """Make the task."""


def _loader(about: About, description: str) -> PairLoader:
    """The loader of a pair, described by its docstring; all pairs have the same options."""

    def load(
        *,
        parties: int = 2,
        label_party: str | None = None,
        seed: int = 0,
        limit: int | None = None,
        scaled: bool = False,
    ) -> Task:
        words = {"parties": parties, "label_party": label_party, "seed": seed, "limit": limit, "scaled": scaled}
        return _pair_task(about, Call.of(words), scaled)

    load.__name__ = about.name.replace("-", "_")
    load.__doc__ = description
    return load


fate_breast = _loader(
    FATE_BREAST, "Benign or malignant; 10 columns with the label, 20 without, standardised; 80/20 split by class."
)
fate_vehicle = _loader(
    FATE_VEHICLE, "Four kinds of vehicle; 9 columns with the label, 9 without, scaled; 80/20 split by class."
)
fate_default_credit = _loader(
    FATE_DEFAULT_CREDIT, "Clients who fail to pay; 13 columns with the label, 10 without; 80/20 split by class."
)
fate_ionosphere = _loader(
    FATE_IONOSPHERE, "Good or bad radar returns; 15 columns with the label, 19 without; 80/20 split by class."
)
fate_motor = _loader(
    FATE_MOTOR, "Regression of a motor's speed; 4 columns with the label, 7 without; 80/20 random split."
)
fate_student = _loader(
    FATE_STUDENT, "Regression of a school grade, 0 to 20; 6 raw columns with it, 7 without; 80/20 random split."
)
fate_dvisits = _loader(
    FATE_DVISITS, "Regression of the number of doctor visits; 3 raw columns with it, 9 without; 80/20 random split."
)


def parse(guest: bytes, host: bytes, label: str, classes: int) -> tuple[Raw, int]:
    """Join the two files, the one without the label first; also return how many columns that one has."""
    ours, theirs = read_delimited(guest), read_delimited(host)
    if list(next(iter(ours.values()), ())) != list(next(iter(theirs.values()), ())):
        raise DataError("Expected the same ids in the same order in both files of a FATE pair.")
    target = numbers(label, take(ours, label))
    own = [name for name in list(ours)[1:] if name != label]
    other = list(theirs)[1:]
    columns = [numbers(name, theirs[name]) for name in other] + [numbers(name, ours[name]) for name in own]
    names = (*(f"host_{name}" for name in other), *(f"guest_{name}" for name in own))
    values = np.nan_to_num(np.stack(columns, axis=1))
    if not classes:
        return Raw(values, names, target), len(other)
    levels, coded = np.unique(target, return_inverse=True)
    return Raw(values, names, coded.astype(np.int64), tuple(f"{level:g}" for level in levels)), len(other)


def _pair_task(about: About, call: Call, scaled: bool) -> Task:
    pair = _PAIRS[about.name]
    guest, host = (
        read(
            File(
                f"fate_vfl_examples/{pair.stem}_hetero_{side}.csv",
                f"{_URL}/{pair.stem}_hetero_{side}.csv",
                sha256=sha,
            )
        )
        for side, sha in (("guest", pair.guest_sha256), ("host", pair.host_sha256))
    )
    raw, first = parse(guest, host, pair.label, about.classes)
    about.check(*raw.values.shape)
    parts = random_parts(about, call, raw.labels, test=0.2, stratify=bool(about.classes))
    values = standardise(raw.values, parts[0].numpy()) if scaled else raw.values
    scaling = "standardised on training rows" if scaled else "as FATE ships them"
    notes = (f"column values {scaling}; empty cells are 0",)
    shares = first_to_others(first, len(raw.names), call.parties)
    return assemble_table(about, call, values, raw.names, raw.labels, raw.classes, shares, parts, notes)
