"""What every dataset must keep to. They are found, not listed: a new file is tested as it is added.

Most datasets need files that are not here. Those say so in one sentence; the others are loaded whole.
"""

import inspect
import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from cutlayer import data
from cutlayer.data import About, sets
from cutlayer.data.catalogue import loaders
from cutlayer.data.sets.wine import WINE
from cutlayer.errors import DataError
from cutlayer.spec import defined, modules
from tests.helpers.data_folder import folder as folder

TESTS = Path(__file__).parents[1]
SHARED = ["parties", "label_party", "seed", "limit"]


def test_every_dataset_keeps_the_contract(folder, subtests):
    embedded = 0
    for about in data.describe():
        with subtests.test(about.name):
            loader = loaders()[about.name]
            check_about(about)
            check_loader(loader)
            check_place(about, loader)
            try:
                loader()
            except DataError as error:
                assert "Set CUTLAYER_DATA to a folder that holds it" in str(error), error
            else:
                embedded += 1
                check_task(about, loader)
    assert embedded >= 3


def check_about(about):
    """The facts that `cutlayer list datasets` and the reference page print."""
    assert about.rows > 0 and about.columns >= 0 and about.classes != 1
    assert about.about and about.terms, "say what it holds and under which terms it may be used"
    assert about.name == about.name.lower() and "_" not in about.name, "names are written with dashes"


def check_loader(loader):
    """The four shared arguments first, then its own; all by keyword with defaults."""
    parameters = inspect.signature(loader).parameters
    assert list(parameters)[:4] == SHARED, f"the first arguments must be {', '.join(SHARED)}"
    for parameter in parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{parameter.name} must be by keyword"
        assert parameter.default is not parameter.empty, f"{parameter.name} must have a default"
    assert (inspect.getdoc(loader) or "").splitlines()[0].endswith("."), "begin with one sentence on one line"


def check_place(about, loader):
    assert loader.__name__ == about.name.replace("-", "_"), "name the function as the dataset"
    assert getattr(data, loader.__name__) is loader and loader.__name__ in dir(data), "not exported"
    file = Path(inspect.getfile(loader)).stem
    assert (TESTS / "data" / "sets" / f"test_{file}.py").exists(), f"write tests/data/sets/test_{file}.py"


def check_task(about, loader):
    """The promised counts, every row in one part, and the same task again from its source."""
    task = loader(parties=2)
    width = sum(features.values[0].numel() for features in task.features.values())
    counts = len(task.labels), width, len(task.classes)
    assert counts == (about.rows, about.columns, about.classes), f"it has {counts} rows, columns and classes"
    assert sorted(torch.cat([task.train, task.test]).tolist()) == list(range(about.rows)), "a row in no or both parts"
    if task.classes:
        assert task.labels.dtype == torch.int64 and set(task.labels.tolist()) == set(range(about.classes))
    assert task.label_party == "party1" and task.feature_parties == ("party2",)
    check_source(loader(parties=3, label_party="server", seed=5, limit=50))


def check_source(task):
    source = json.loads(json.dumps(dict(task.source)))
    again = data.load(source.pop("dataset"), **source)
    assert task.source == again.source
    assert torch.equal(task.train, again.train) and torch.equal(task.labels, again.labels)
    for party, features in task.features.items():
        assert torch.equal(features.values, again.features[party].values), f"{party} holds other values"


def test_no_file_holds_half_a_dataset():
    """A loader without its About, or an About without its loader, would be overlooked."""
    known = set(loaders().values())
    for name, thing in defined(sets):
        if inspect.isfunction(thing) and list(inspect.signature(thing).parameters)[:4] == SHARED:
            assert thing in known, f"{thing.__module__} lacks {name.upper()} = About(...)"
    for module in modules(sets):
        for name, thing in vars(module).items():
            if isinstance(thing, About) and not name.startswith("_"):
                assert hasattr(module, name.lower()), f"{module.__name__} lacks {name.lower()}()"


def careless(*, parties=2, label_party=None, seed=0, limit=None):
    """Wine, whose test rows are trained on too."""
    task = data.wine(parties=parties, label_party=label_party, seed=seed, limit=limit)
    return replace(task, train=torch.arange(len(task.labels)))


def test_a_dataset_that_breaks_a_rule_is_refused():
    check_task(WINE, data.wine)
    with pytest.raises(AssertionError, match="a row in no or both parts"):
        check_task(WINE, careless)
    with pytest.raises(AssertionError, match=r"it has \(178, 13, 3\)"):
        check_task(replace(WINE, rows=179), data.wine)
    with pytest.raises(AssertionError, match="under which terms"):
        check_about(replace(WINE, terms=""))
    with pytest.raises(AssertionError, match="the first arguments must be parties"):
        check_loader(lambda *, seed=0: None)
    with pytest.raises(AssertionError, match="name the function as the dataset"):
        check_place(WINE, careless)
