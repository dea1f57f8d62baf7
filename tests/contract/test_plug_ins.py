"""What attacks, defences and cuts have in common. They are found, not listed: a new file is tested as it is added."""

import inspect
from pathlib import Path

import pytest

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.defence import Defence
from cutlayer.spec import describe, find, kebab, parse

TESTS = Path(__file__).parents[1]
KINDS = [
    (cutlayer.attacks, Attack, "Sees:", "Needs:", "Paper:"),
    (cutlayer.cuts, Cut, "Guarantee:", "Does not hide:"),
    (cutlayer.defences, Defence, "Guarantee:", "Does not hide:", "Paper:"),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind[0].__name__)
def test_every_class_keeps_to_what_plug_ins_have_in_common(kind, subtests):
    package, base, *labels = kind
    classes = find(package, base)
    assert len(classes) > 3
    for name, cls in classes.items():
        with subtests.test(name):
            check_settings(cls, package, base)
            check_words(cls, labels)
            check_place(cls, package)


def check_settings(cls, package, base):
    for parameter in inspect.signature(cls).parameters.values():
        assert parameter.kind is parameter.KEYWORD_ONLY, f"{parameter.name} must be by keyword"
        assert parameter.default is not parameter.empty, f"{parameter.name} must have a default"
    for full in (True, False):
        again = parse(describe(cls(), full=full), package, base, "plug-in")
        assert type(again) is cls and vars(again) == vars(cls()), "its spelling makes something else"
    for setting in (*getattr(cls, "strengths", ()), *getattr(cls, "settings", ())):
        assert isinstance(parse(f"{kebab(cls.__name__)}:{setting}", package, base, "plug-in"), cls)


def check_words(cls, labels):
    doc = inspect.getdoc(cls) or ""
    assert doc.splitlines()[0].endswith("."), "begin with one sentence on one line"
    for label in labels:
        assert label in doc or (label == "Paper:" and "arXiv:" in doc), f"the docstring lacks '{label}'"


def check_place(cls, package):
    room = package.__name__.rpartition(".")[2]
    file = Path(inspect.getfile(cls)).stem
    assert getattr(package, cls.__name__) is cls and cls.__name__ in dir(package), "not exported"
    assert list((TESTS / room).glob(f"test_{file}*.py")), f"write tests/{room}/test_{file}.py"


class Forgetful(Defence):
    """It does not remember its setting, and does not say what it guarantees."""

    def __init__(self, strength: float = 1.0) -> None:
        self._strength = strength


def test_a_class_that_breaks_the_contract_is_refused():
    with pytest.raises(AssertionError, match="strength must be by keyword"):
        check_settings(Forgetful, cutlayer.defences, Defence)
    with pytest.raises(AssertionError, match="lacks 'Guarantee:'"):
        check_words(Forgetful, ["Guarantee:"])
    with pytest.raises(AttributeError, match="Forgetful"):
        check_place(Forgetful, cutlayer.defences)
