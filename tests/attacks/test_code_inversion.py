from dataclasses import replace

import pytest
import torch
from torch import nn

from cutlayer.attack import Form
from cutlayer.attacks import CodeInversion
from cutlayer.attacks.tools.shared_codes import nearest_code, shared_codes
from cutlayer.auditing.attacking import attack_run
from cutlayer.defences import Hash
from cutlayer.errors import ConfigError, Inapplicable
from tests.helpers.toy import FEATURE, digits_run, inversion_view, rng, world

DEFENCES = (Hash(bits=4),)
CODES = Hash(bits=4).shared_codes(2, 0)


def sent_through(bottom, inputs, defences=DEFENCES):
    """The label party's view of inputs sent through a bottom, all of them test rows."""
    view = inversion_view(bottom, inputs)
    return replace(view, manifest=replace(view.manifest, defences=defences))


def test_the_picture_of_a_code_has_that_code_and_rows_get_their_class():
    with torch.no_grad():
        bottom = nn.Linear(4, 4, bias=False)
        bottom.weight.copy_(torch.eye(4) * 2)
    pictures = CodeInversion(steps=1200, restarts=1).pictures(bottom, (4,), CODES, rng())
    assert torch.allclose(pictures, CODES / 2, atol=0.01)
    inputs = CODES[[1, 0, 0, 1, 1]] * 0.5
    guess = CodeInversion(steps=1200, restarts=1, images=4).run(sent_through(bottom, inputs), rng())
    assert guess.form is Form.VALUES and guess.rows.tolist() == [0, 1, 2, 3]
    assert torch.allclose(guess.values, inputs[:4], atol=0.01)


def test_the_best_restart_counts_and_the_first_is_grey():
    attack = CodeInversion(restarts=3, low=0.0, high=4.0)
    start = attack._start((3, 2, 1, 2, 2), rng())
    assert (start[0] == 2).all() and start[1:].min() >= 0 and start[1:].max() <= 4 and start[1:].std() > 0.5
    bottom = nn.Sequential(nn.Flatten(), nn.Linear(4, 2), nn.ReLU())
    with torch.no_grad():  # dead at the grey start, alive elsewhere
        bottom[1].weight.copy_(torch.tensor([[1.0, 0, 0, 0], [0, 1.0, 0, 0]]))
        bottom[1].bias.fill_(-0.6)
    target = torch.tensor([[0.2, 0.2]])
    errors = {}
    for restarts in (1, 12):
        pictures = CodeInversion(restarts=restarts, tv=0.0).pictures(bottom, (1, 2, 2), target, rng())
        with torch.no_grad():
            errors[restarts] = float((bottom(pictures) - target).pow(2).mean())
    assert errors[1] == pytest.approx(0.04) and errors[12] < 1e-4


def test_embeddings_are_inverted_row_by_row_where_they_cross():
    truth = torch.randn(6, 4, generator=rng(2))
    bottom = nn.Linear(4, 8).requires_grad_(False)
    bottom.weight.copy_(torch.randn(8, 4, generator=rng(3)))
    attack = CodeInversion(match="embedding", steps=1500, lr=1e-2)
    guess = attack.run(sent_through(bottom, truth, ()), rng())
    assert (guess.values - truth).abs().max() < 0.05
    with pytest.raises(Inapplicable, match="codes only"):
        attack.run(sent_through(Codes(), truth), rng())


class Codes(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return torch.where(inputs >= 0, 1.0, -1.0)


def test_on_digits_every_row_of_a_code_gets_the_same_picture():
    run, guesses = digits_run(True), {}
    attack = CodeInversion(steps=200, images=None)
    findings = attack_run(run, [attack], on_guess=lambda a, g, f: guesses.update({f.victim: g}))
    assert [f.victim for f in findings] == ["party1", "party2"]
    for name, guess in guesses.items():
        assert len(guess.rows) == len(run.task.test) and guess.values.min() >= 0 and guess.values.max() <= 1
        assert len(guess.values.flatten(1).unique(dim=0)) <= 10
        bottom = run.session.parties[name].bottom
        codes = shared_codes(run.manifest())
        with torch.no_grad():
            grey = (bottom(torch.full_like(guess.values[:1], 0.5)) - codes).pow(2).mean()
            named = nearest_code(bottom(guess.values), codes)
            error = (bottom(guess.values) - codes[named]).pow(2).mean()
        assert error < grey / 2
    assert attack_run(run, [CodeInversion(match="embedding")])[0].reason == "codes only"


def test_what_it_refuses():
    assert CodeInversion().applies(world(3).manifest) == "needs shared target codes"
    assert CodeInversion().applies(world(0).manifest) == "needs shared target codes"
    assert CodeInversion(match="embedding").applies(world(3).manifest) is None
    assert CodeInversion().applies(world(3, hashed=True).manifest) is None
    view = world(3).view_for(CodeInversion())
    with pytest.raises(ConfigError, match="target codes"):
        CodeInversion().run(view, rng())
    with pytest.raises(ConfigError, match="bottom model"):
        CodeInversion().run(world(3).view("bank", victim=FEATURE), rng())
    for wrong in (
        {"match": "row"},
        {"images": 0},
        {"steps": 0},
        {"restarts": 0},
        {"lr": 0.0},
        {"tv": -1.0},
        {"l2": -1.0},
        {"tv_form": "l1"},
        {"low": 1.0, "high": 1.0},
    ):
        with pytest.raises(ConfigError):
            CodeInversion(**wrong)
