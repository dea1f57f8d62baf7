"""Names and settings as text, and back."""

import pytest

import cutlayer.cuts
import cutlayer.defences
from cutlayer.cut import Cut
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError
from cutlayer.spec import describe, find, kebab, name_in, numbers_in, parse, settings, spell, split_spelling


@pytest.mark.parametrize(
    ("name", "spelt"),
    [
        ("MaxNorm", "max-norm"),
        ("LabelDP", "label-dp"),
        ("DPNoise", "dp-noise"),
        ("Sum", "sum"),
        ("VFLRecon", "vfl-recon"),
    ],
)
def test_kebab(name, spelt):
    assert kebab(name) == spelt


def test_every_defence_survives_the_round_trip():
    for cls in find(cutlayer.defences, Defence).values():
        for full in (True, False):
            again = parse(describe(cls(), full=full), cutlayer.defences, Defence, "defence")
            assert type(again) is cls and vars(again) == vars(cls())


def test_defaults_are_left_out_unless_asked_for():
    noise = cutlayer.defences.GaussianNoise(std=0.5)
    assert describe(noise) == "gaussian-noise:std=0.5"
    assert describe(noise, full=True) == "gaussian-noise:std=0.5,on=embedding,clip=None"


class Mine(Defence):
    """A defence of the user's own."""


def test_a_class_from_elsewhere_is_spelt_with_its_path():
    assert describe(Mine()) == "tests.test_spec.Mine"
    assert isinstance(parse("tests.test_spec.Mine", cutlayer.defences, Defence, "defence"), Mine)


def test_settings_are_read_by_annotation():
    def thing(
        *, a: int, b: float | None = None, c: tuple[int, ...] = (), d: bool = False, e: tuple[float, ...] = ()
    ) -> None: ...

    assert settings("a=3,b=1e-3,c=4-5,d=true", thing, "thing") == {"a": 3, "b": 1e-3, "c": (4, 5), "d": True}
    assert settings("b=none,e=1e-3-0.5", thing, "thing") == {"b": None, "e": (1e-3, 0.5)}
    assert settings("", thing, "thing") == {}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gausian-noise", "Unknown defence 'gausian-noise'.*Did you mean 'gaussian-noise'"),
        ("gaussian-noise:sdt=1", "Unknown setting 'sdt' of defence gaussian-noise: expected one of std"),
        ("gaussian-noise:std=loud", "Expected std of defence gaussian-noise to be a number, got 'loud'"),
        ("gaussian-noise:std", "settings as key=value, got 'std'"),
        ("gaussian-noise:std=-1", "std=-1"),
        ("gaussian-noise:on=nowhere", "Unknown on of defence gaussian-noise 'nowhere'"),
        ("max-norm:scale=1", "Unknown setting 'scale' of defence max-norm: expected none"),
        ("no_such_module.Thing", "Could not import defence 'no_such_module.Thing'"),
        ("cutlayer.cuts.Sum", "to be a subclass of Defence"),
    ],
)
def test_mistakes_are_told(text, message):
    with pytest.raises(ConfigError, match=message):
        parse(text, cutlayer.defences, Defence, "defence")


def test_a_class_of_the_users_own_is_imported():
    assert isinstance(parse("cutlayer.cuts.Concat", cutlayer.cuts, Cut, "cut"), cutlayer.cuts.Concat)


def test_a_list_of_numbers_may_be_empty():
    from cutlayer.models import named

    assert named.top("relu-mlp:hidden=none").settings == {"hidden": ()}
    assert named.top("relu-mlp:hidden=30-10").settings == {"hidden": (30, 10)}
    assert describe(Numbers(sizes=())) == f"{__name__}.Numbers:sizes=none"


class Numbers:
    def __init__(self, *, sizes: tuple[int, ...] = (1,)) -> None:
        self.sizes = sizes


def test_a_spelling_is_split_where_describe_joined_it():
    for spelling, parts in (("hash", ("hash", "")), ("hash:bits=8,on=a:b", ("hash", "bits=8,on=a:b"))):
        assert split_spelling(spelling) == parts and spell(*parts) == spelling and name_in(spelling) == "hash"


def test_numbers_are_those_of_the_values():
    assert numbers_in("k2=3,std=1e-05,sizes=4-5.5,big=1e+17,on=layer4,clip=None") == [3, 1e-5, 4, 5.5, 1e17]
    assert numbers_in("") == []
