"""A study in words: TOML and back, mistakes with their key and line, setups with cuts, presets that find everything."""

import pytest

import cutlayer.attacks
import cutlayer.cuts
import cutlayer.defences
from cutlayer.attack import Attack
from cutlayer.cut import Cut
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.defence import Defence
from cutlayer.errors import ConfigError
from cutlayer.experiment.presets import Depth, preset
from cutlayer.experiment.study import Study, read_study
from cutlayer.settings import Settings
from cutlayer.spec import find

TRAINING = Settings(lr=0.01, patience=2, bottoms={"party2": "linear"})


def make(**changes):
    given = {"data": "wine", "defences": ("none", "label-dp:epsilon=2.0"), "attacks": ("model-completion",)}
    return Study(**{**given, **changes})


def test_toml_and_back(tmp_path):
    table = {"path": str(tmp_path / "people.csv"), "label": "y", "parties": {"bank": ["a", 'b "x"'], "shop": ["c"]}}
    for study in (
        make(),
        make(seeds=(0, 1), valid=0.1, training=TRAINING),
        make(data="", table=table),
    ):
        path = tmp_path / "study.toml"
        path.write_text(study.to_toml(tmp_path))
        again = read_study(path)
        wanted = study.to_json()
        if wanted["table"]:
            wanted["table"] = {**wanted["table"], "path": str(tmp_path / "people.csv")}
        assert again.to_json() == wanted


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('data = "wine"\nattacks = ["norm-score"]\nepocs = 3\n', "Unknown key 'epocs'.*Did you mean 'epochs'.*line 3"),
        (
            'data = "wine"\n\nattacks = "norm-score"\n',
            "Expected attacks .line 3.* to be a list of texts, got 'norm-score'",
        ),
        (
            'data = "wine"\nattacks = ["norm-score"]\nseeds = ["a"]\n',
            "seeds .line 3.* a list of whole numbers",
        ),
        (
            'data = "wine"\nattacks = ["norm-score"]\nepochs = true\n',
            "epochs .line 3.* a whole number, got True",
        ),
        ('data = "wine"\nattacks = [\n', "Expected TOML"),
        ('attacks = ["norm-score"]\n', "either a dataset or a table"),
        ('data = "wine"\nattacks = ["norm-scor"]\n', "Did you mean 'norm-score'"),
        ('data = "wine"\nattacks = ["norm-score"]\ndefences = ["hash:bit=3"]\n', "Unknown setting 'bit'"),
        ('data = "wine"\nattacks = ["norm-score"]\n[table]\nlable = "y"\n', "either a dataset or a table"),
        ('attacks = ["norm-score"]\n[table]\nlable = "y"\n', "Unknown key in .table. 'lable'"),
    ],
)
def test_mistakes_are_named(tmp_path, text, message):
    path = tmp_path / "study.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_study(path)


def test_a_setup_may_hold_a_cut_and_defences():
    plan = make().plan("secure-sum:scheme=none+column-noise:flip=0.1+max-norm", 3)
    assert isinstance(plan.cut, SecureSum) and plan.cut.scheme == "none" and plan.seed == 3
    assert [type(defence).__name__ for defence in plan.defences] == ["ColumnNoise", "MaxNorm"]
    with pytest.raises(ConfigError, match="Expected one cut"):
        make().plan("secure-sum+sum", 0)


def test_repeats_are_refused():
    with pytest.raises(ConfigError, match="every one of the attacks once"):
        make(attacks=("norm-score", "norm-score"))


@pytest.mark.parametrize("depth", list(Depth))
def test_presets_hold_all_that_lies_in_the_folders(depth):
    chosen = preset(depth)
    names = {part.partition(":")[0] for setup in chosen.defences for part in setup.split("+")}
    kinds = {**find(cutlayer.defences, Defence), **find(cutlayer.cuts, Cut)}
    quiet = {name for name, kind in kinds.items() if not kind.strengths}
    assert names == {"none", *kinds} - quiet
    assert quiet == {"abnormal-codes", "blind-layer", "concat", "encrypted-layer", "sum"}
    assert {attack.partition(":")[0] for attack in chosen.attacks} == set(find(cutlayer.attacks, Attack))
    make(defences=chosen.defences, attacks=chosen.attacks)  # every spelling reads


def test_depths_grow():
    quick, standard, deep = (preset(depth) for depth in Depth)
    assert set(quick.defences) | set(standard.defences) <= set(deep.defences)  # the middle, the ends, all
    assert set(quick.attacks) <= set(standard.attacks) and quick.seeds < standard.seeds < deep.seeds
    assert len(quick.defences) >= 6 and len(quick.attacks) >= 6
    with pytest.raises(ConfigError, match="Unknown depth"):
        preset("profound")


def test_a_deep_audit_tries_partners_together():
    pairs = {setup for setup in preset(Depth.DEEP).defences if "+" in setup}
    assert pairs == {"hash+max-norm", "gaussian-noise+label-dp", "secure-sum+column-noise"}
    assert not any("+" in setup for setup in preset(Depth.STANDARD).defences)


def test_a_study_keeps_cheating_parties_and_refuses_look_ahead(tmp_path):
    greedy = make(training=Settings(kinds={"party2": "greedy-party"}))
    (tmp_path / "study.toml").write_text(greedy.to_toml(tmp_path))
    assert read_study(tmp_path / "study.toml").plan("none", 0).parties.keys() == {"party2"}
    with pytest.raises(ConfigError, match="no lookahead in a study"):
        make(training=Settings(lookahead=2))
