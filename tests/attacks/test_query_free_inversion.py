from dataclasses import replace

import pytest
import torch
from scipy.sparse import csr_matrix
from torch import nn
from torch.nn.functional import cross_entropy
from torch.nn.utils import parametrizations

from cutlayer.attack import Form
from cutlayer.attacks import QueryFreeInversion
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.sparse import SparseRows
from cutlayer.cut import Roster
from cutlayer.cuts import SecureSum
from cutlayer.cuts.concat import Concat
from cutlayer.errors import ConfigError, Inapplicable
from cutlayer.message import Kind, Phase
from cutlayer.recipe import Recipe
from cutlayer.rng import Stream, draw_anew
from cutlayer.transcript import Transcript
from cutlayer.view import Hints, Manifest, Own, Shadow, view_of
from tests.helpers.toy import FEATURE, LABEL, OTHER, digits_run, record, rng, world

ATTACK = QueryFreeInversion(shadow=40)


class Scale(nn.Module):
    """One weight per column, without an initialisation of its own."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows * self.weight


def signs_view(form: nn.Module, sent: torch.Tensor, shadow: torch.Tensor, victim_rows: int):
    """A label party whose top names the largest column of a row."""
    transcript, rows = Transcript(), torch.arange(victim_rows)
    record(transcript, Kind.EMBEDDING, FEATURE, rows, sent, phase=Phase.PREDICT)
    manifest = Manifest("toy", Roster(LABEL, (FEATURE,)), 3, rows[:0], rows, Recipe(), Concat())
    none = torch.empty(0, dtype=torch.int64)
    hints = Hints(
        forms={FEATURE: form},
        shapes={FEATURE: (3,)},
        shadow=Shadow(none, {FEATURE: shadow}, shadow.argmax(dim=1), lambda *_: None),
    )
    view = view_of(transcript, frozenset({LABEL}), manifest, {LABEL: Own(None, None, top=nn.Identity())})
    return replace(view, hints=hints, victim=FEATURE)


def test_a_substitute_learns_the_victims_signs_from_the_top_alone():
    """The top takes the largest of three numbers, so that a weight per column must come out positive, as true."""
    with Stream(0, "signs").scope():
        truth, shadow, form = torch.randn(20, 3), torch.randn(320, 3), Scale(3)
    with torch.no_grad():
        form.weight.copy_(torch.tensor([-0.02, 0.01, -0.01]))
    attack = QueryFreeInversion(epochs=20, steps=200, lr=0.5, l2=0.0)
    view = signs_view(form, truth, shadow, 20)  # the true weights are all 1
    learned, _ = attack.substitutes(view, view.hints.shadow, 0)
    weights = learned[FEATURE].weight
    assert (weights > 0.05).all()  # each of 100 steps moves a weight by 0.001 at most
    guess = attack.run(view, rng())
    assert guess.form is Form.VALUES and torch.allclose(guess.values * weights.detach(), truth, atol=0.05)
    assert (guess.values.sign() == truth.sign()).all()
    assert torch.equal(form.weight, torch.tensor([-0.02, 0.01, -0.01]))  # the hint is not trained


def test_the_objective_by_hand():
    x, target = torch.tensor([[[[1.0, 2.0]]], [[[0.0, 0.0]]]]), torch.tensor([[0.0, 0.0], [1.0, 3.0]])
    known = torch.tensor([[[[0.0, 1.0]]], [[[2.0, 1.0]]]])  # mean 1 and 1, variance 2 and 0
    values = QueryFreeInversion(tv=2.0, l2=3.0)._objective(nn.Flatten(), x, target, known)  # the mean of H^2 is 2.5
    assert values.tolist() == pytest.approx([1 + 2 * 1 + 3 * 0.5, 2 + 3 * 1.0])
    assert ATTACK._objective(nn.Flatten(), x, 0 * target, known[[0, 0]]).isfinite().all()


def test_digits_come_back_better_than_any_guess_without_messages():
    for finding in attack_run(digits_run(False), [QueryFreeInversion(shadow=200, steps=200, tv=0.1)]):
        assert finding.value < 0.9 * finding.baseline
        assert finding.granted == "the form of the victim's bottom model, 200 complete rows outside of training"
        assert finding.rows == 100


def test_substitutes_of_all_feature_parties_are_trained_before_the_same_frozen_top():
    toy = world(3)
    view = toy.view_for(ATTACK)
    shadow, own = view.hints.shadow, view.own[LABEL]
    learned, _ = ATTACK.substitutes(view, shadow, 0)
    assert set(learned) == {FEATURE, OTHER}

    def loss(models):
        with torch.no_grad():
            parts = [own.bottom(shadow.features[LABEL])]
            parts += [models[name].eval()(shadow.features[name]) for name in (FEATURE, OTHER)]
            return cross_entropy(own.top(torch.cat(parts, dim=1)), shadow.labels)

    for trained in ((FEATURE,), (OTHER,), (FEATURE, OTHER)):  # each of them learns
        assert loss({**view.hints.forms, **{name: learned[name] for name in trained}}) < loss(view.hints.forms)
    assert not torch.isin(ATTACK.run(view, rng()).rows, shadow.rows).any()


def test_weights_drawn_anew_keep_nothing():
    with Stream(0, "anew").scope():
        old = nn.Sequential(
            nn.Linear(4, 5),
            nn.BatchNorm1d(5),
            Scale(5),
            parametrizations.weight_norm(nn.Linear(5, 3)),
            nn.MultiheadAttention(3, 1),
        )
        with torch.no_grad():
            for tensor in old.state_dict().values():
                if tensor.is_floating_point():
                    tensor.normal_()
    before = {name: tensor.clone() for name, tensor in old.state_dict().items()}
    old[1].running_mean += 1
    draw_anew(old, 3, "test")
    for name, tensor in old.state_dict().items():
        assert tensor.isfinite().all(), name
        if tensor.is_floating_point():
            assert not torch.isclose(tensor, before[name]).any(), name
    once = {name: tensor.clone() for name, tensor in old.state_dict().items()}
    draw_anew(old, 3, "test")
    assert all(torch.equal(tensor, once[name]) for name, tensor in old.state_dict().items())
    assert old[1].running_mean.tolist() == [0] * 5 and old[1].running_var.tolist() == [1] * 5


def test_what_it_refuses():
    toy = world(3)
    view = toy.view_for(ATTACK)
    with pytest.raises(Inapplicable, match="all test rows are shadow rows: set shadow below 80"):
        QueryFreeInversion().run(toy.view_for(QueryFreeInversion()), rng())
    with pytest.raises(ConfigError, match="query-free-inversion needs them"):
        ATTACK.run(toy.view(LABEL, victim=FEATURE), rng())
    with pytest.raises(Inapplicable, match="plain cuts only"):
        ATTACK.run(replace(view, manifest=replace(view.manifest, cut=SecureSum())), rng())
    for form in (nn.Embedding(9, 2), nn.Linear(3, 2)):
        hints = replace(view.hints, forms={**view.hints.forms, OTHER: form})
        with pytest.raises(Inapplicable, match="dense-only"):
            ATTACK.run(replace(view, hints=hints), rng())
    own = view.own[LABEL]
    sparse = SparseRows.from_scipy(csr_matrix(own.features.numpy()))
    for wrong, error in ((replace(own, top=None), ConfigError), (replace(own, features=sparse), Inapplicable)):
        with pytest.raises(error, match=r"label party|dense-only"):
            ATTACK.run(replace(view, own={LABEL: wrong}), rng())
    assert ATTACK.applies(world(0).manifest) == "classes-only" and ATTACK.applies(toy.manifest) is None
    for wrong in ({"shadow": 1}, {"images": 0}, {"epochs": 0}, {"steps": 0}, {"lr": 0}, {"tv": -1}):
        with pytest.raises(ConfigError):
            QueryFreeInversion(**wrong)
