"""Wisconsin breast cancer: 30 measures of cell nuclei, benign or malignant."""

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, random_parts
from cutlayer.data.prepare import standardise
from cutlayer.data.split import evenly
from cutlayer.data.task import Task

BREAST_CANCER = About(
    "breast-cancer", 569, 30, 2, "cell nuclei, benign or malignant", terms="UCI, CC BY 4.0; in scikit-learn"
)


def breast_cancer(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """All 30 columns, standardised on training rows, in blocks; 80/20 split by class."""
    call = Call.of(locals())
    from sklearn.datasets import load_breast_cancer

    bunch = load_breast_cancer()
    parts = random_parts(BREAST_CANCER, call, bunch.target, test=0.2)
    return assemble_table(
        BREAST_CANCER,
        call,
        standardise(bunch.data, parts[0].numpy()),
        [str(name) for name in bunch.feature_names],
        bunch.target,
        [str(name) for name in bunch.target_names],
        evenly(30, parties),
        parts,
    )
