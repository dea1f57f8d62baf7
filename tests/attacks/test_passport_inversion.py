"""Passport inversion: what each attacker assumes, and that fitting finds what guessing does not."""

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.attacks.passport_inversion import PassportInversion, _solve
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.passport import passport_layers
from cutlayer.defences.passport import Passport
from cutlayer.errors import ConfigError


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


@pytest.mark.parametrize("rectified", [True, False])
def test_gamma_and_beta_are_solved_for_by_group_and_channel(rectified):
    inner = torch.randn(40, 3, 4, 4, generator=rng())
    groups = torch.arange(40) % 2
    gamma = torch.tensor([[2.0, -1.0, 0.5], [-3.0, 1.0, 4.0]])
    beta = torch.tensor([[0.5, -0.2, 0.0], [1.0, 0.3, -0.5]])
    target = gamma[groups][:, :, None, None] * inner + beta[groups][:, :, None, None]
    (slope, enough), (shift, _) = _solve(inner, target.relu() if rectified else target, groups)
    assert enough.all()
    assert torch.allclose(slope, gamma, atol=1e-4) and torch.allclose(shift, beta, atol=1e-4)


@pytest.fixture(scope="module")
def defended():
    task = cl.data.digits(parties=2)
    settings = {"recipe": cl.Recipe(epochs=8), "seed": 0, "keep": "last"}
    return cl.train(
        task,
        bottoms=lambda features, width: nn.Sequential(nn.Flatten(), nn.Linear(32, 48)),
        defences=[Passport(mean_range=10.0, variance=1.0, where="bottom")],
        **settings,
    )


def test_who_fits_passports_sees_more_than_who_ignores_or_guesses_them(defended):
    search = {"images": 30, "steps": 200}
    attacks = [
        PassportInversion(assume="none", restarts=1, **search),
        cl.attacks.ModelInversion(restarts=1, **search),
        PassportInversion(restarts=2, **search),
    ]
    ignored, guessed, fitted = (finding.value for finding in attack_run(defended, attacks, by="party1"))
    assert fitted < guessed < ignored


def test_of_several_guesses_the_one_that_explains_the_embeddings_best_counts(defended, monkeypatch):
    real, ends, drawn = PassportInversion._guess, [], []

    def spy(self, bottom, start, target):
        ends.append(real(self, bottom, start, target))
        drawn.append(passport_layers(bottom)[0].means.clone())
        return ends[-1]

    monkeypatch.setattr(PassportInversion, "_guess", spy)
    kept = []
    attack_run(
        defended,
        [PassportInversion(assume="guess", restarts=3, images=10, steps=50)],
        by="party1",
        on_guess=lambda attack, guess, finding: kept.append(guess.values),
    )
    best = min(range(3), key=lambda place: ends[place][1])
    assert torch.equal(kept[0], ends[best][0])
    truth = passport_layers(defended.session.parties["party2"].bottom)[0].means
    assert not any(torch.equal(guess, other) for place, guess in enumerate(drawn) for other in (truth, *drawn[:place]))


def test_without_passports_it_says_why_it_does_not_apply():
    run = cl.train(cl.data.digits(parties=2, limit=200), recipe=cl.Recipe(epochs=1), keep="last")
    (finding,) = attack_run(run, [PassportInversion(images=5, steps=2)])
    assert (finding.status, finding.reason) == ("does not apply", "passports-only")


def test_bad_settings():
    with pytest.raises(ConfigError, match="assume"):
        PassportInversion(assume="all")
    with pytest.raises(ConfigError, match="rate"):
        PassportInversion(rate=0.0)
    with pytest.raises(ConfigError, match="restarts"):
        PassportInversion(restarts=0)
