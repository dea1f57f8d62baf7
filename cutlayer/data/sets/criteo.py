"""Criteo display advertisements (Kaggle 2014): was the advertisement clicked? A sample of 137,139 rows.

Thirteen counts (I1 to I13) and 26 hashed categories (C1 to C26), many of them missing. Three
papers use them in three ways; each is one function below.
"""

import numpy as np
import numpy.typing as npt

from cutlayer._validate import at_least, one_of
from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, by_rounded_share, random_parts
from cutlayer.data.prepare import (
    Text,
    Whole,
    balanced,
    by_frequency,
    class_numbers,
    codes,
    min_max,
    numbers,
    read_delimited,
)
from cutlayer.data.smote import resample
from cutlayer.data.source import File, read
from cutlayer.data.split import at_random, evenly
from cutlayer.data.task import Column, ColumnKind, Task
from cutlayer.rng import numpy_generator

CRITEO = About(
    "criteo", 137_139, 39, 2, "clicks on web advertisements; a sample", "HashVFL, FedAdOb, VFLRecon",
    "Criteo Labs terms (research use)",
)  # fmt: skip
_FILE = File(
    "criteo/criteo_sample_137139.txt",
    hint="The sample has no public address: Criteo Labs offers the full set (Display Advertising Challenge).",
)
_COUNTS = tuple(f"I{number}" for number in range(1, 14))
_CATEGORIES = tuple(f"C{number}" for number in range(1, 27))
_HASHVFL = (*_COUNTS, *(f"C{number}" for number in (1, 2, 5, 6, 8, 9, 14, 17, 20, 22, 23, 25)))
_CLASSES = ("no click", "click")
_SAMPLE = "a sample of 137,139 of 45,840,617 rows"


def criteo(
    *,
    parties: int = 2,
    label_party: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    preparation: str = "hashvfl",
    smote: str = "before",
    scaled: bool = False,
    imbalance: int | None = None,
) -> Task:
    """Prepare the columns as one of three papers does.

    "hashvfl": 25 columns, unscaled codes, balanced by SMOTE (`smote`: before the split, on "train"
    rows only, or "none"), standardised if `scaled`; 70/30 split. "vflrecon": 39 columns in
    [-1, 1], dealt out at random, as many clicks as not; 80/20 split. "dcn": 13 logarithms and 26
    integer codes for embeddings, half of each to each party, with `imbalance` rows without a
    click per click (FedAdOb: 16); 5/6 to 1/6 split. All splits are by class.
    """
    call = Call.of(locals())
    one_of("preparation", preparation, ("hashvfl", "vflrecon", "dcn"))
    one_of("smote", smote, ("before", "train", "none"))
    table = parse(read(_FILE))
    CRITEO.check(len(table["label"]), len(table) - 1)
    if preparation == "hashvfl":
        return _hashvfl(call, table, smote, scaled)
    return _dcn(call, table, imbalance) if preparation == "dcn" else _vflrecon(call, table)


def parse(data: bytes) -> dict[str, Text]:
    """Read the tab-separated file without a header: label, 13 counts, 26 categories, empty if missing."""
    return read_delimited(data, delimiter="\t", names=("label", *_COUNTS, *_CATEGORIES))


def fill_back(column: Text) -> tuple[Text, npt.NDArray[np.bool_]]:
    """Give an empty cell the next value below it; also return which rows have a value now."""
    rows = len(column)
    places = np.where(column != "", np.arange(rows), rows)
    nearest = np.minimum.accumulate(places[::-1])[::-1]
    return column[np.minimum(nearest, rows - 1)], nearest < rows


def fold_rare(column: Text, train: Whole, least: int = 10) -> tuple[Whole, int]:
    """Number the values that training rows hold at least `least` times; all others, and missing, are 0."""
    coded, names = codes(column)
    counts = np.bincount(coded[train], minlength=len(names))
    common = (counts >= least) & (np.array(names) != "")
    number = np.where(common, np.cumsum(common), 0)
    return number[coded], int(common.sum()) + 1


def _hashvfl(call: Call, table: dict[str, Text], smote: str, scaled: bool) -> Task:
    filled = {name: fill_back(table[name]) for name in _HASHVFL}
    whole = np.logical_and.reduce([present for _, present in filled.values()])
    counts = np.stack([numbers(name, filled[name][0][whole]) for name in _COUNTS], axis=1)
    coded = [codes(filled[name][0][whole])[0] for name in _HASHVFL[len(_COUNTS) :]]
    values = np.concatenate([min_max(counts), np.stack(coded, axis=1)], axis=1)
    resampled = resample(values, _labels(table)[whole], mode=smote, scaled=scaled, test=0.3, seed=call.seed)
    notes = (_SAMPLE, "missing cells filled from below; counts min-max scaled over all rows", *resampled.notes)
    shares = by_rounded_share(len(_HASHVFL), call.parties)
    return assemble_table(
        CRITEO, call, resampled.values, _HASHVFL, resampled.labels, _CLASSES, shares, resampled.parts, notes
    )


def _vflrecon(call: Call, table: dict[str, Text]) -> Task:
    names = (*_COUNTS, *_CATEGORIES)
    counts = [np.nan_to_num(numbers(name, table[name])) for name in _COUNTS]
    ranked = [by_frequency(table[name]) for name in _CATEGORIES]
    rows = balanced(_labels(table), numpy_generator(call.seed, "data", "criteo", "balance"))
    labels = _labels(table)[rows]
    values = min_max(np.stack([*counts, *ranked], axis=1)[rows], -1, 1)
    shares = at_random(39, call.parties, numpy_generator(call.seed, "data", "criteo", "columns"))
    notes = (
        _SAMPLE,
        "rows without a click thinned out to as many as with one, test part too",
        "missing counts are 0; categories ranked by frequency; min-max to [-1, 1] over the kept rows",
    )
    parts = random_parts(CRITEO, call, labels, test=0.2)
    return assemble_table(CRITEO, call, values, names, labels, _CLASSES, shares, parts, notes)


def _dcn(call: Call, table: dict[str, Text], imbalance: int | None) -> Task:
    labels = _labels(table)
    rows = np.arange(len(labels))
    if imbalance is not None:
        rows = _imbalanced(labels, imbalance, numpy_generator(call.seed, "data", "criteo", "balance"))
    labels = labels[rows]
    parts = random_parts(CRITEO, call, labels, test=1 / 6)
    counts = np.stack([np.nan_to_num(numbers(name, table[name][rows])) for name in _COUNTS], axis=1)
    folded = [fold_rare(table[name][rows], parts[0].numpy()) for name in _CATEGORIES]
    values = np.concatenate([np.sign(counts) * np.log1p(np.abs(counts)), np.stack([c for c, _ in folded], 1)], 1)
    columns = [Column(name) for name in _COUNTS] + [
        Column(name, ColumnKind.CATEGORICAL, levels) for name, (_, levels) in zip(_CATEGORIES, folded, strict=True)
    ]
    halves = zip(evenly(13, call.parties), evenly(26, call.parties), strict=True)
    shares = [[*counts_of, *(13 + place for place in coded_of)] for counts_of, coded_of in halves]
    notes = (
        _SAMPLE,
        "level 0 is missing or held by fewer than 10 training rows; counts x as sign(x)·log(1+|x|)",
    )
    return assemble_table(CRITEO, call, values, columns, labels, _CLASSES, shares, parts, notes)


def _imbalanced(labels: Whole, ratio: int, rng: np.random.Generator) -> Whole:
    """Thin out the clicks, or the rest, until there are `ratio` rows without a click per click."""
    at_least("imbalance", ratio, 1)
    clicks, rest = (rng.permutation(np.flatnonzero(labels == code)) for code in (1, 0))
    kept = min(len(clicks), len(rest) // ratio)
    return np.sort(np.concatenate([clicks[:kept], rest[: kept * ratio]]))


def _labels(table: dict[str, Text]) -> Whole:
    return class_numbers(table, "label", 2)
