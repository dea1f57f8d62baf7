"""An attack reaches neither the labels nor another party's rows: everything reachable from a View is walked."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.auditing.secret import secret_of
from cutlayer.judge import grant
from tests.helpers.reachable import reachable, shows
from tests.helpers.small_task import bottom, make_task, top


@pytest.fixture(scope="module")
def run():
    recipe = cl.Recipe(epochs=2, batch_size=32)
    return cl.train(make_task(3, "p0"), bottoms=bottom, top=top, width=6, recipe=recipe, keep="all")


@pytest.mark.parametrize("party", ["p1", "p2"])
def test_a_feature_party_reaches_neither_labels_nor_other_rows(run, party):
    view = run.view(party)
    assert not shows(view, run.task.labels)
    assert not shows(view, run.task.labels[run.task.train])
    for other in {"p0", "p1", "p2"} - {party}:
        assert not shows(view, run.task.features[other].values), other
    assert shows(view, run.task.features[party].values)  # the walk does find what is there


def test_the_label_party_reaches_its_labels_but_no_other_rows(run):
    view = run.view("p0")
    assert shows(view, run.task.labels)
    assert not shows(view, run.task.features["p1"].values)
    assert not shows(view, run.task.features["p2"].values)


def test_no_model_of_another_party_is_reachable_without_a_hint(run):
    weights = run.session.parties["p2"].modules["bottom"][0].weight.detach()
    assert not shows(run.view("p1"), weights)
    assert not shows(run.view("p0"), weights)
    assert shows(run.view("p2"), weights)


def test_the_form_of_a_bottom_leads_to_nothing_that_it_learned(run):
    view = run.view("p0")
    informed = replace(view, hints=grant(cl.Asks(form=True), view, secret_of(run), 0))
    assert set(informed.hints.forms) == {"p1", "p2"} and not informed.hints.bottoms
    for name, form in informed.hints.forms.items():
        true = run.session.parties[name].modules["bottom"].state_dict()
        assert {key: tensor.shape for key, tensor in form.state_dict().items()} == {k: t.shape for k, t in true.items()}
        assert not any(shows(informed, tensor) for tensor in true.values() if tensor.is_floating_point())


def test_only_channels_of_the_attacking_parties_are_seen(run):
    assert {frozenset((c.sender, c.receiver)) for c in run.view("p1").channels} == {frozenset(("p0", "p1"))}
    collusion = run.view(["p1", "p2"])
    assert {frozenset((c.sender, c.receiver)) for c in collusion.channels} == {
        frozenset(("p0", "p1")),
        frozenset(("p0", "p2")),
    }
    assert set(collusion.own) == {"p1", "p2"} and not shows(collusion, run.task.labels)


def test_no_party_session_task_or_transcript_is_reachable(run):
    kinds = {type(thing).__name__ for thing in reachable(run.view("p1"))}
    assert not kinds & {"Task", "Session", "Transcript", "LabelParty", "FeatureParty", "Run", "Secret"}


def test_the_walk_catches_a_leak(run):
    """A view that carried the labels in a closure would be caught."""
    labels = run.task.labels

    class Leaky:
        peek = staticmethod(lambda: labels)

        def __init__(self):
            self.method = lambda: labels

    assert shows(Leaky(), labels)


def test_an_attack_that_changes_its_models_does_not_change_the_run(run):
    before = run.to_json()["models"]
    view = run.view("p1")
    with torch.no_grad():
        for parameter in view.own["p1"].bottom.parameters():
            parameter.zero_()
    assert run.to_json()["models"] == before


def test_unknown_party(run):
    with pytest.raises(cl.ConfigError, match="Unknown party p9: expected one of p0, p1, p2"):
        run.view("p9")


def test_a_missing_channel_says_what_to_do():
    run = cl.train(make_task(2, "p0"), recipe=cl.Recipe(epochs=1, batch_size=32), keep="none")
    with pytest.raises(cl.RunError, match="train with --keep last"):
        run.view("p1").channel(cl.Kind.GRADIENT)


def test_a_manifest_is_asked_for_a_defence_and_gives_a_copy_of_it():
    noise = cl.defences.GaussianNoise(std=0.25)
    run = cl.train(make_task(2, "p0"), defences=[noise], recipe=cl.Recipe(epochs=1, batch_size=32))
    manifest = run.manifest()
    assert manifest.uses(cl.defences.GaussianNoise).std == 0.25 and manifest.uses(cl.defences.Hash) is None
    assert manifest.defences[0] is not noise  # an attack that changes it changes nobody's run
