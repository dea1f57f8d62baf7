"""Wine: 13 chemical measures, three growers."""

from cutlayer.data.about import About
from cutlayer.data.assemble import Call, assemble_table, random_parts
from cutlayer.data.prepare import standardise
from cutlayer.data.split import evenly
from cutlayer.data.task import Task

WINE = About("wine", 178, 13, 3, "chemical measures of wine, three growers", terms="UCI, CC BY 4.0; in scikit-learn")


def wine(*, parties: int = 2, label_party: str | None = None, seed: int = 0, limit: int | None = None) -> Task:
    """All 13 columns, standardised on training rows, in blocks; 80/20 split by class."""
    call = Call.of(locals())
    from sklearn.datasets import load_wine

    bunch = load_wine()
    parts = random_parts(WINE, call, bunch.target, test=0.2)
    return assemble_table(
        WINE,
        call,
        standardise(bunch.data, parts[0].numpy()),
        [str(name) for name in bunch.feature_names],
        bunch.target,
        [str(name) for name in bunch.target_names],
        evenly(13, parties),
        parts,
    )
