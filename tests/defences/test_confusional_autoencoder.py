"""Confusional autoencoder: soft labels hide the class, and the decoder finds it again."""

from dataclasses import replace
from math import log

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.checkpoint import digest
from cutlayer.data.task import Goal
from cutlayer.defence import Role, Setting, Subject
from cutlayer.defences import ConfusionalAutoencoder
from cutlayer.defences.confusional_autoencoder import autoencoder, confusion
from cutlayer.errors import ConfigError
from cutlayer.spec import parse
from tests.helpers.small_task import make_task
from tests.helpers.toy import draws


def setting(role=Role.LABEL_PARTY, subject=Subject.LABELS, classes=3, seed=0):
    return Setting("p", role, subject, classes, draws(), shared_seed=0, private_seed=seed)


def soft_labels(classes=2, seed=0, **settings):
    return ConfusionalAutoencoder(**settings).labels(torch.arange(classes), setting(classes=classes, seed=seed))


def test_the_loss_by_hand():
    encoded = torch.tensor([[log(3.0), 0.0]])  # a soft label of 3/4, 1/4
    decoder = nn.Linear(2, 2, bias=False)
    nn.init.zeros_(decoder.weight)  # decodes to a half each
    confused = log(1 + torch.tensor(-0.5).exp().item())  # log softmax of (3/4, 1/4), at the first
    entropy = log(4) - 0.75 * log(3)
    loss = confusion(encoded, decoder, torch.tensor([[1.0, 0.0]]), 2.0)
    assert loss.item() == pytest.approx(10 * log(2) - confused - 2 * entropy, rel=1e-5)


def test_soft_labels_are_rows_of_weights_that_do_not_name_their_class():
    soft = soft_labels(3)
    assert soft.dtype == torch.float32 and soft.sum(dim=1).tolist() == pytest.approx([1, 1, 1])
    assert (soft.argmax(dim=1) != torch.arange(3)).all()
    labels = torch.tensor([2, 0, 2, 1])
    assert torch.equal(ConfusionalAutoencoder().labels(labels, setting()), soft[labels])


def test_the_optimum_is_found():
    """Two classes, decoded at no cost: the own share q minimises log softmax of (q, 1 - q), less H(q)."""
    q = torch.linspace(0.001, 0.999, 999, dtype=torch.float64)
    entropy = -(q * q.log() + (1 - q) * (1 - q).log())
    best = q[((2 * q - 1).sigmoid().log() - entropy).argmin()].item()
    assert soft_labels(epochs=1000).diag().tolist() == pytest.approx([best, best], abs=0.05)


def test_more_weight_is_more_even():
    own = [soft_labels(weight=weight, epochs=200).diag().mean().item() for weight in (0.5, 1.0, 2.0)]
    assert own == sorted(own) and own[0] + 0.05 < own[-1] < 0.5


def test_the_top_decodes_in_evaluation_only_and_the_decoder_is_not_trained():
    soft = soft_labels(3)
    top = ConfusionalAutoencoder().model(nn.Identity(), setting(subject=Subject.TOP))
    assert torch.equal(top.train()(soft.log()), soft.log())
    decoded = top.eval()(soft.log())
    assert torch.equal(decoded.argmax(dim=1), torch.arange(3)) and decoded.exp().sum(dim=1).tolist() == pytest.approx(
        [1, 1, 1]
    )
    assert top(torch.tensor([[1e30, -1e30, 0.0]])).isfinite().all()
    assert not any(p.requires_grad for p in top.parameters()) and any("decoder" in key for key in top.state_dict())


def test_both_hooks_use_one_autoencoder_that_is_trained_once_from_the_private_seed():
    defence, labels, kept = (
        ConfusionalAutoencoder(epochs=100),
        torch.arange(2),
        setting(subject=Subject.TOP, classes=2, seed=5),
    )
    autoencoder.cache_clear()
    before = torch.random.get_rng_state()
    first = defence.labels(labels, kept)
    defence.model(nn.Identity(), kept).to(torch.float64)
    assert autoencoder.cache_info().misses == 1 and autoencoder.cache_info().hits == 1
    assert torch.equal(torch.random.get_rng_state(), before)
    again = defence.model(nn.Identity(), kept)
    assert again.eval()(first.log()).dtype == torch.float32  # what was kept did not change with the first
    autoencoder.cache_clear()
    assert torch.equal(defence.labels(labels, kept), first)
    assert not torch.equal(defence.labels(labels, replace(kept, private_seed=6)), first)


def test_synthetic_samples_end_at_like_soft_labels():
    labels = soft_labels(hidden=64, samples=2000, epochs=40, temperature=0.1)
    assert torch.allclose(labels, soft_labels(), atol=0.1)


def test_the_other_parties_and_parts_are_left_alone():
    labels, model = torch.tensor([0, 1]), nn.Identity()
    assert ConfusionalAutoencoder().labels(labels, setting(Role.FEATURE_PARTY)) is labels
    for role, part in ((Role.FEATURE_PARTY, Subject.BOTTOM), (Role.LABEL_PARTY, Subject.BOTTOM)):
        assert ConfusionalAutoencoder().model(model, setting(role, part)) is model


def test_a_task_is_learned_and_its_decoder_saved_as_it_was(tmp_path):
    task = cl.data.breast_cancer(parties=2)
    run = cl.train(task, defences=[ConfusionalAutoencoder()], recipe=cl.Recipe(epochs=5), out=tmp_path / "run")
    plain = cl.train(task, recipe=cl.Recipe(epochs=5))
    assert run.metrics["accuracy"] > plain.metrics["accuracy"] - 0.05 > 0.85
    top = run.session.label_party.top
    private = run.session.label_party.setting
    kept = ConfusionalAutoencoder().model(nn.Identity(), replace(private, subject=Subject.TOP))
    assert digest(top.decoder) == digest(kept.decoder)


def test_digits_are_learned():
    task = cl.data.digits(parties=2)
    run = cl.train(
        task, defences=[ConfusionalAutoencoder(hidden=256, epochs=200)], recipe=cl.Recipe(epochs=4, batch_size=32)
    )
    assert run.metrics["accuracy"] > 0.85


def test_what_it_refuses():
    for wrong in (
        {"weight": -1},
        {"hidden": 0},
        {"samples": 0},
        {"epochs": 0},
        {"temperature": 0.1},
        {"samples": 9, "temperature": 0},
    ):
        with pytest.raises(ConfigError):
            ConfusionalAutoencoder(**wrong)
    with pytest.raises(ConfigError, match="class numbers"):
        ConfusionalAutoencoder().labels(torch.rand(2, 3), setting())
    with pytest.raises(ConfigError, match="regression"):
        ConfusionalAutoencoder().labels(torch.rand(2), setting(classes=0))
    with pytest.raises(ConfigError, match="regression"):
        cl.train(
            make_task(2, "p0", Goal.REGRESSION),
            defences=[ConfusionalAutoencoder()],
            recipe=cl.Recipe(epochs=1, batch_size=32),
        )
    with pytest.raises(ConfigError, match=r"decode all 10 classes.*raise epochs"):
        soft_labels(10, hidden=8, epochs=3)


def test_spelling():
    import cutlayer.defences as package
    from cutlayer.defence import Defence

    text = "confusional-autoencoder:weight=2.0,hidden=64,samples=100,temperature=0.1,epochs=5"
    assert parse(text, package, Defence, "defence").describe() == text
