from dataclasses import replace

import pytest
import torch

from cutlayer.attack import Form
from cutlayer.attacks import Decoder
from cutlayer.attacks.decoder import RowWriter, class_means
from cutlayer.auditing.attacking import attack_run
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.recipe import Recipe
from cutlayer.transcript import Transcript
from cutlayer.view import Hints, Known, Manifest, Own, view_of
from tests.helpers.toy import FEATURE, LABEL, ROSTER, digits_run, record, rng, world


def pairs_view(messages, inputs, labels, known, classes=2):
    """The label party's view: all messages in prediction, the first `known` rows' inputs, own labels."""
    rows, transcript = torch.arange(len(inputs)), Transcript()
    record(transcript, Kind.EMBEDDING, FEATURE, rows, messages, 0, Phase.PREDICT)
    manifest = Manifest("toy", ROSTER, classes, rows[:known], rows[known:], Recipe(batch_size=4), world().manifest.cut)
    view = view_of(transcript, frozenset({LABEL}), manifest, {LABEL: Own(None, None, labels=labels)})
    hints = Hints(features={FEATURE: Known(rows[:known], inputs[:known])}, shapes={FEATURE: tuple(inputs.shape[1:])})
    return replace(view, hints=hints, victim=FEATURE)


def test_the_class_mean_by_hand():
    """Known: 1 and 3 of class 0, 8 of class 1, none of class 2, whose rows get the mean of all, 4."""
    known, values = torch.eye(3)[[0, 1, 0]], torch.tensor([[1.0], [8.0], [3.0]])
    assert class_means(known, values, torch.eye(3)[[2, 1, 0, 0]]).tolist() == [[4.0], [8.0], [2.0], [2.0]]
    view = pairs_view(
        torch.zeros(6, 2), torch.tensor([[1.0], [8], [3], [0], [0], [0]]), torch.tensor([0, 1, 0, 1, 0, 1]), 3
    )
    guess = Decoder(reads="class-mean").run(view, rng())
    assert guess.form is Form.VALUES and guess.rows.tolist() == [3, 4, 5]
    assert guess.values.tolist() == [[8.0], [2.0], [8.0]]


@pytest.mark.parametrize("shape", [(3,), (1, 2, 2)], ids=["table", "image"])
def test_the_label_decoder_learns_the_class_means(shape):
    labels = torch.randint(0, 2, (300,), generator=rng(1))
    middles = torch.rand(2, *shape, generator=rng(2)) * 0.6 + 0.2
    inputs = (middles[labels] + 0.05 * torch.randn(300, *shape, generator=rng(3))).clamp(0, 1)
    view = pairs_view(torch.randn(300, 4, generator=rng(4)), inputs, labels, 240)
    guess = Decoder(reads="label").run(view, rng())
    by_hand = torch.stack([inputs[:240][labels[:240] == c].mean(dim=0) for c in (0, 1)])
    assert (guess.values - by_hand[labels[240:]]).abs().max() < 0.03


def test_messages_are_decoded_and_useless_ones_give_the_mean():
    inputs = torch.randn(400, 5, generator=rng(1)) * torch.tensor([1.0, 10, 100, 1, 1]) + 50
    mix = torch.randn(5, 8, generator=rng(2)) / torch.tensor([1.0, 10, 100, 1, 1])[:, None]
    labels = torch.zeros(400, dtype=torch.int64)
    useful = pairs_view(inputs @ mix * 1e-3, inputs, labels, 320)
    sealed = pairs_view(torch.randn(400, 8, generator=rng(3)), inputs, labels, 320)
    spread = inputs.std(dim=0)
    errors = [
        ((Decoder(images=70).run(view, rng()).values - inputs[320:390]) / spread).pow(2).mean(dim=0)
        for view in (useful, sealed)
    ]
    assert errors[0].max() < 0.1 and errors[1].min() > 0.7 and errors[1].max() < 1.5


def test_numbers_are_standardised_and_images_bounded():
    inputs, table = torch.tensor([[1.0, 5.0], [3.0, 5.0]]), torch.tensor([[10.0], [30.0]])
    answer = RowWriter(inputs, table)
    assert answer.standard(inputs).tolist() == [[-1, 0], [1, 0]] and not answer.bounded
    assert answer.scaled(table).tolist() == [[-1], [1]]
    assert (
        RowWriter(inputs, torch.rand(2, 1, 2, 2)).bounded and not RowWriter(inputs, torch.rand(2, 1, 2, 2) + 1).bounded
    )
    assert RowWriter(inputs, torch.rand(2, 1, 2, 3))(inputs).shape == (2, 1, 2, 3)


def test_the_best_epoch_counts_not_the_last(monkeypatch):
    inputs, values = torch.randn(40, 2, generator=rng(1)), torch.rand(40, 3, generator=rng(2))
    errors = iter([3.0, 1.0, 2.0, 2.0, 2.0])
    seen = []

    def error(output, wanted):
        if output.requires_grad:
            return (output - wanted).pow(2).mean()
        seen.append(len(output))
        return torch.tensor(next(errors))

    monkeypatch.setattr("cutlayer.attacks.decoder.mse_loss", error)
    state = torch.random.get_rng_state()
    answers = []
    for epochs in (2, 50):
        torch.random.set_rng_state(state)
        errors = iter([3.0, 1.0, 2.0, 2.0, 2.0])
        answers.append(Decoder(epochs=epochs, patience=3)._learn(inputs, values)(inputs))
    torch.random.set_rng_state(state)
    assert torch.equal(*answers) and set(seen) == {4} and len(seen) == 2 + 5


def test_a_leaky_toy_beats_the_controls():
    toy, errors = world(3), {}
    for reads in ("message", "label", "class-mean"):
        attack = Decoder(reads=reads)
        guess = attack.run(toy.view_for(attack), rng())
        errors[reads] = float((guess.values - toy.features[FEATURE][guess.rows]).pow(2).mean())
    assert errors["message"] < 0.8 * min(errors["label"], errors["class-mean"])


def test_digits_undefended_are_seen_and_codes_still_say_a_little_more_than_labels():
    attacks = [Decoder(pairs=800, epochs=40), Decoder(pairs=800, reads="class-mean")]
    for hashed in (False, True):
        message, mean = (attack_run(digits_run(hashed), [attack])[1] for attack in attacks)
        assert mean.value < mean.baseline and message.value < mean.value, hashed
        assert message.baseline_name == "mean row" and "800 of the victim's rows" in message.granted
        assert hashed or message.value < mean.value / 3


def test_regression_labels_are_numbers():
    toy = world(0)
    attack = Decoder(reads="label", epochs=3)
    assert attack.run(toy.view_for(attack), rng()).values.isfinite().all()
    assert Decoder(reads="class-mean").applies(toy.manifest) == "classes-only"
    assert Decoder().applies(toy.manifest) is None


def test_what_it_refuses():
    inputs, labels = torch.rand(6, 2, generator=rng()), torch.zeros(6, dtype=torch.int64)
    view = pairs_view(inputs, inputs, labels, 4)
    with pytest.raises(ConfigError, match="two known rows"):
        Decoder().run(replace(view, hints=Hints()), rng())
    ids = Known(torch.arange(4), torch.zeros(4, 2, dtype=torch.int64))
    with pytest.raises(Inapplicable, match="dense-only"):
        Decoder().run(replace(view, hints=Hints(features={FEATURE: ids})), rng())
    far = Known(torch.arange(3, 9), torch.rand(6, 2, generator=rng()))
    with pytest.raises(RunError, match="every known row"):
        Decoder().run(replace(view, hints=Hints(features={FEATURE: far})), rng())
    with pytest.raises(ConfigError, match="label party"):
        Decoder(reads="label").run(replace(view, own={LABEL: Own(None, None)}), rng())
    for wrong in ({"pairs": 1}, {"reads": "mind"}, {"images": 0}, {"epochs": 0}, {"patience": 0}, {"lr": 0.0}):
        with pytest.raises(ConfigError):
            Decoder(**wrong)
