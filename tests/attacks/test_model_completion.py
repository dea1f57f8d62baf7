from dataclasses import replace

import pytest
import torch
from torch import nn

from cutlayer.attack import Asks, Form
from cutlayer.attacks import ModelCompletion
from cutlayer.attacks.model_completion import _average, _head, _places, interleaved, sharpen
from cutlayer.auditing.attacking import attack_run
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from cutlayer.view import Known, Own
from tests.helpers.toy import FEATURE, digits_run, rng, world


def blobs(classes=3, bottom=None, shape=(4,)):
    """A view whose attacker's bottom already sorts rows by class."""
    toy = world(classes)
    middles = 4 * torch.randn(classes, *shape, generator=rng(1))
    inputs = middles[toy.labels] + torch.randn(len(toy.labels), *shape, generator=rng(2))
    view = toy.view(FEATURE, Asks(labels=12), victim="bank")
    return toy, replace(view, own={FEATURE: Own(inputs, bottom or nn.Identity())})


def accuracy(toy, view, guess):
    fresh = ~torch.isin(guess.rows, view.hints.labels.rows)
    return float((guess.values[fresh] == toy.labels[guess.rows[fresh]]).double().mean())


@pytest.mark.parametrize(
    "attack",
    [ModelCompletion(labels=12), ModelCompletion(labels=12, ssl=True, epochs=4)],
    ids=["labels", "ssl"],
)
def test_a_few_labels_name_the_classes(attack):
    toy, view = blobs()
    guess = attack.run(view, rng())
    assert guess.form is Form.CLASSES and torch.equal(guess.rows, toy.manifest.train)
    assert accuracy(toy, view, guess) > 0.9


def test_a_trained_bottom_beats_the_majority_and_shuffled_labels_do_not():
    attack, scores = ModelCompletion(labels=30), {}
    for sealed in (False, True):
        toy = world(3, sealed=sealed)
        view = toy.view_for(attack)
        scores[sealed] = accuracy(toy, view, attack.run(view, rng()))
    assert scores[False] > 0.45
    assert scores[True] == pytest.approx(1 / 3, abs=0.08)


@pytest.mark.parametrize("ssl", [False, True])
def test_feature_maps_are_flattened(ssl):
    with Stream(0, "maps").scope():
        bottom = nn.Sequential(nn.Conv2d(1, 2, 2), nn.BatchNorm2d(2), nn.Dropout(0.1))
    toy, view = blobs(bottom=bottom, shape=(1, 4, 3))
    assert accuracy(toy, view, ModelCompletion(ssl=ssl, epochs=2 if ssl else None).run(view, rng())) > 0.8


def test_the_head_is_the_papers():
    embeddings = torch.randn(50, 4, generator=rng()) * 3 + 1
    head = _head(embeddings, 3)
    norm, relu, linear = head
    assert isinstance(relu, nn.ReLU) and torch.equal(linear.weight, torch.ones(3, 4))
    standard = (embeddings - embeddings.mean(0)) / (embeddings.var(0, unbiased=False) + norm.eps).sqrt()
    by_hand = standard.clamp(min=0).sum(dim=1, keepdim=True) + linear.bias
    assert torch.allclose(head.eval()(embeddings), by_hand, atol=1e-5)


def test_sharpening_by_hand():
    """T = 0.8: (0.8, 0.2) to the power 1.25 is (0.7566, 0.1337)."""
    assert sharpen(torch.tensor([[0.8, 0.2]])).tolist()[0] == pytest.approx([0.8498, 0.1502], abs=1e-4)


@pytest.mark.parametrize("count", [4, 7])
def test_interleaving_halves_both_kinds_and_keeps_the_order(count):
    seen = []
    inputs = torch.arange(float(count))[:, None]
    assert torch.equal(interleaved(lambda x: seen.append(x) or x, inputs), inputs)
    assert [x[:, 0].tolist() for x in seen] == [list(range(0, count, 2)), list(range(1, count, 2))]


def test_the_average_follows_and_weights_shrink():
    fast, slow = nn.Linear(1, 1), nn.Linear(1, 1)
    for module, value in ((fast, 1.0), (slow, 0.0)):
        nn.init.constant_(module.weight, value)
        nn.init.constant_(module.bias, value)
    _average(slow, fast, 0.5)
    assert slow.weight.item() == pytest.approx(0.001) and fast.weight.item() == 0.5 and fast.bias.item() == 0.5


def test_on_messages_only_what_was_sent_counts():
    toy = world(3, hashed=True)
    attack = ModelCompletion(labels=30, on="messages")
    assert attack.asks == Asks(labels=30, frozen_train=True) and ModelCompletion(labels=30).asks == Asks(labels=30)
    view = toy.view_for(attack)
    scrambled = replace(view, own={FEATURE: Own(torch.zeros(400, 8), nn.Linear(8, 8))})
    guess = attack.run(view, rng())
    assert torch.equal(guess.values, attack.run(scrambled, rng()).values)
    assert torch.equal(guess.rows, toy.manifest.train) and accuracy(toy, view, guess) > 0.45
    codes = view.channel(Kind.EMBEDDING, Phase.PREDICT).read()[1][guess.rows]
    of_code = {}
    for code, named in zip(codes.tolist(), guess.values.tolist(), strict=True):
        of_code.setdefault(tuple(code), set()).add(named)
    assert codes.abs().eq(1).all() and all(len(named) == 1 for named in of_code.values())
    both = ModelCompletion(labels=30, on="messages", ssl=True, epochs=4)
    assert accuracy(toy, view, both.run(view, rng())) > 0.4


def test_places_are_found_in_any_order():
    assert _places(torch.tensor([7, 2, 5]), torch.tensor([5, 7])).tolist() == [2, 0]
    with pytest.raises(RunError, match="every labelled row"):
        _places(torch.tensor([7, 2, 5]), torch.tensor([5, 8]))


def test_undefended_messages_are_what_the_bottom_says():
    toy = world(3)
    attacks = [ModelCompletion(labels=30, on=on) for on in ("bottom", "messages")]
    first, second = (attack.run(toy.view_for(attack), rng()) for attack in attacks)
    assert torch.equal(first.values, second.values)


def test_codes_of_digits_give_labels_away():
    bottom, messages = attack_run(digits_run(True), [ModelCompletion(), ModelCompletion(on="messages")], by="party2")
    assert messages.value > messages.baseline and messages.value > 0.75
    assert "prediction pass" in messages.granted and "prediction pass" not in bottom.granted


def test_what_it_refuses():
    _, view = blobs()
    ids = replace(view, own={FEATURE: Own(torch.zeros(400, 3, dtype=torch.int64), nn.Embedding(2, 4))})
    ModelCompletion(epochs=2).run(ids, rng())  # token ids are fine, as long as nothing is mixed
    with pytest.raises(Inapplicable, match="dense-only"):
        ModelCompletion(ssl=True).run(ids, rng())
    for hint in (None, Known(torch.arange(0), torch.arange(0))):
        with pytest.raises(ConfigError, match="known labels"):
            ModelCompletion().run(replace(view, hints=replace(view.hints, labels=hint)), rng())
    assert ModelCompletion().applies(world(0).manifest) == "classes-only"
    for wrong in ({"labels": 0}, {"epochs": 0}, {"steps": 0}, {"lr": -1.0}, {"on": "top"}):
        with pytest.raises(ConfigError):
            ModelCompletion(**wrong)
