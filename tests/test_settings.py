"""One way from words to a Plan: the same words, through every door, give the same plan."""

import json
from dataclasses import fields, replace

import pytest
import torch
import typer

import cutlayer as cl
from cutlayer.cli import app, main
from cutlayer.errors import ConfigError, RunError
from cutlayer.experiment.study import Study, read_study
from cutlayer.net.party.manifest import manifest_of
from cutlayer.papers.job import Job
from cutlayer.settings import Settings, read_bottoms, read_settings, settings_of
from cutlayer.setup import read_setup

WORDS = {
    "bottom": "mlp:hidden=8",
    "bottoms": {"party2": "linear"},
    "top": "mlp:hidden=4",
    "width": 5,
    "cut": "sum",
    "epochs": 2,
    "batch_size": 32,
    "optimiser": "sgd",
    "lr": 0.05,
    "momentum": 0.5,
    "weight_decay": 0.001,
    "schedule": "steps:every=1",
    "clip": 0.7,
}
SETUP = "gaussian-noise:std=0.5+max-norm"
EXPECTED = Settings(**WORDS, defences=("gaussian-noise:std=0.5", "max-norm"), seed=3)
OPTIONS = [
    *("--bottom", "mlp:hidden=8", "--bottom", "party2=linear", "--top", "mlp:hidden=4", "--width", "5", "--cut", "sum"),
    *("--epochs", "2", "--batch-size", "32", "--optimiser", "sgd", "--lr", "0.05", "--momentum", "0.5"),
    *("--weight-decay", "0.001", "--schedule", "steps:every=1", "--clip", "0.7"),
]


def plain(plan):
    """A plan in words, every setting spelled out."""
    return settings_of(plan).to_json()


def recorded(run):
    return Settings.of_json(json.loads((run / "run.json").read_text())["plan"]).plan()


def by_train(folder):
    words = ["--data", "breast-cancer", *OPTIONS, "--defence", "gaussian-noise:std=0.5", "--defence", "max-norm"]
    assert main(["train", *words, "--seed", "3", "--out", str(folder / "run")]) == 0
    return recorded(folder / "run")


def by_audit(folder):
    study = folder / "study.toml"
    words = ["--data", "breast-cancer", *OPTIONS, "--defence", SETUP, "--attack", "norm-score"]
    assert main(["audit", *words, "--save-study", str(study)]) == 0
    return read_study(study).plan(SETUP, 3)


def by_a_study(folder):
    return Study(data="wine", attacks=("norm-score",), training=Settings(**WORDS)).plan(SETUP, 3)


def by_a_party(folder):
    section = {"parties": ["party1", "party2"], "label_party": "party1", **WORDS, "seed": 3}
    return manifest_of({**section, "defences": ["gaussian-noise:std=0.5", "max-norm"]}).plan()


def by_python(folder):
    return cl.train(cl.data.breast_cancer(), settings=EXPECTED).plan


@pytest.mark.parametrize("door", [by_train, by_audit, by_a_study, by_a_party, by_python])
def test_the_same_words_give_the_same_plan_through_every_door(door, tmp_path):
    assert plain(door(tmp_path)) == plain(EXPECTED.plan())


def test_a_paper_reads_the_same_words():
    job = Job(data="digits", bottom="linear", cut="sum", defence=SETUP, epochs=4, clip=2.0, milestones=(2, 3), seed=5)
    words = Settings(
        bottom="linear",
        cut="sum",
        defences=tuple(SETUP.split("+")),
        epochs=4,
        batch_size=256,
        lr=1e-3,
        weight_decay=5e-4,
        schedule="milestones:at=2-3",
        clip=2.0,
        seed=5,
    )
    assert plain(job.unit().training.plan()) == plain(words.plan())


def test_a_file_written_by_one_is_read_by_all(tmp_path):
    by_train(tmp_path)
    by_audit(tmp_path)
    party = tmp_path / "party.toml"
    lines = [f"{key} = {json.dumps(value)}" for key, value in WORDS.items() if key != "bottoms"]
    party.write_text("\n".join(["[run]", *lines, 'bottoms = {party2 = "linear"}', 'parties = ["a", "b"]']))
    for file in (tmp_path / "run", tmp_path / "run" / "run.json", tmp_path / "study.toml", party):
        words = {**read_settings(file), "defences": (), "seed": 0}
        assert plain(Settings(**words).plan()) == plain(Settings(**WORDS).plan()), file
    again = ["train", "--data", "breast-cancer", "--settings", str(tmp_path / "run"), "--out", str(tmp_path / "again")]
    assert main(again) == 0
    assert plain(recorded(tmp_path / "again")) == plain(EXPECTED.plan())
    audit = ["audit", "--data", "wine", "--settings", str(tmp_path / "run"), "--attack", "norm-score"]
    other = tmp_path / "other.toml"
    assert main([*audit, "--defence", "none", "--epochs", "9", "--save-study", str(other)]) == 0
    words = Settings(**read_settings(tmp_path / "run"))
    assert read_study(other).training == replace(words, epochs=9, defences=(), seed=0)


def test_train_and_audit_have_every_option_of_a_training():
    verbs = typer.main.get_command(app).commands
    train, audit = ({parameter.name for parameter in verbs[verb].params} for verb in ("train", "audit"))
    words = {f.name for f in fields(Settings)}
    words -= {
        "bottoms",
        "defences",
        "kinds",
        "lookahead",
    }  # --bottom NAME=MODEL, --defence, --greedy; only a network looks ahead
    assert words <= train and {"defence", "greedy"} <= train
    assert words - {"seed"} <= audit and {"defence", "seeds"} <= audit


def test_a_plan_comes_back_from_its_words():
    assert Settings.of_json(json.loads(json.dumps(EXPECTED.to_json()))) == EXPECTED


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cut": "my_module.Cut"}, "names code outside cutlayer .my_module.Cut.*--trust"),
        ({"bottom": "custom"}, "modules of your own"),
        ({"width": "wide"}, "Could not read the plan .*width to be a whole number, got 'wide'"),
        ({"lr": None}, "Could not read the plan .*lr to be a number"),
    ],
)
def test_what_cannot_be_read_again_is_refused(change, message):
    with pytest.raises(RunError, match=message):
        Settings.of_json({**EXPECTED.to_json(), **change})


def test_bottoms_by_party():
    assert read_bottoms(["linear"]) == {"bottom": "linear", "bottoms": {}}
    both = {"bottom": "mlp:hidden=8", "bottoms": {"shop": "mlp:hidden=3"}}
    assert read_bottoms(["shop=mlp:hidden=3", "mlp:hidden=8"]) == both
    with pytest.raises(ConfigError, match="one --bottom for all parties"):
        read_bottoms(["linear", "lenet"])
    words = Settings(bottoms={"party2": "linear"}, epochs=1, batch_size=32)
    parties = cl.train(cl.data.wine(parties=2), settings=words).session.parties
    kinds = {name: {type(module) for module in party.modules["bottom"].modules()} for name, party in parties.items()}
    assert torch.nn.ReLU in kinds["party1"] and torch.nn.ReLU not in kinds["party2"]


def test_objects_override_words():
    run = cl.train(cl.data.wine(), settings=Settings(epochs=9, batch_size=32), epochs=1, cut=cl.Sum())
    assert run.plan.recipe.epochs == 1 and isinstance(run.plan.cut, cl.Sum) and run.plan.recipe.batch_size == 32


def test_a_setup_replaces_cut_and_defences():
    settings = Settings(cut="sum", defences=("max-norm",)).under(read_setup("hash:bits=8+secure-sum"))
    assert (settings.cut, settings.defences) == ("secure-sum", ("hash:bits=8",))
    with pytest.raises(ConfigError, match="Expected one cut"):
        Settings().under(read_setup("sum+secure-sum"))


@pytest.mark.parametrize(("key", "value"), [("patience", 3), ("kinds", {"b": "greedy-party"})])
def test_a_deployment_refuses_what_only_a_simulation_can(key, value):
    with pytest.raises(ConfigError, match=f"Expected no {key} in .run."):
        manifest_of({"parties": ["a", "b"], "label_party": "a", key: value})


def test_a_bottom_of_nobody_is_refused():
    with pytest.raises(ConfigError, match="one of party1, party2, got partX"):
        cl.train(cl.data.wine(), settings=Settings(bottoms={"partX": "linear"}, epochs=1, batch_size=32))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"schedule": "foo"}, "Unknown schedule 'foo': expected one of constant, "),
        ({"defences": ("hash:bit=3",)}, "Did you mean 'bits'"),
        ({"defences": ("secure-sum",)}, "secure-sum is a cut, not a defence: choose it with --cut secure-sum"),
        ({"defences": ("max-norm:scale=3",)}, "expected none"),
    ],
)
def test_a_mistake_is_answered_with_what_to_do(words, message):
    with pytest.raises(ConfigError, match=message):
        Settings(**words).plan()


def test_an_audit_says_that_it_leaves_the_defences_of_a_run_out(tmp_path, capsys):
    by_train(tmp_path)
    audit = ["audit", "--data", "wine", "--settings", str(tmp_path / "run"), "--attack", "norm-score"]
    assert main([*audit, "--save-study", str(tmp_path / "study.toml")]) == 0
    assert "the defences in --settings are left out" in capsys.readouterr().err
