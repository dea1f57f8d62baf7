import pytest
import torch
from torch import nn

from cutlayer.attack import Form
from cutlayer.attacks import ModelInversion
from cutlayer.attacks.tools import inversion
from cutlayer.blocks.sparse import SparseRows
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.message import Kind, Phase
from cutlayer.rng import Stream
from cutlayer.transcript import Transcript
from tests.helpers.toy import FEATURE, inversion_view, record, rng, world


def images(count=12, side=8):
    """Soft blobs in [0, 1], one place each."""
    at = torch.rand(count, 2, 1, 1, generator=rng(5)) * side
    line = torch.arange(side, dtype=torch.float32)
    distance = (line.view(1, -1, 1) - at[:, 0]) ** 2 + (line.view(1, 1, -1) - at[:, 1]) ** 2
    return torch.exp(-distance / 6)[:, None]


def make(*layers):
    with Stream(1, "bottom").scope():
        return nn.Sequential(*(layer() for layer in layers)).eval()


CONV = (
    lambda: nn.Conv2d(1, 6, 3, padding=1),
    nn.ReLU,
    lambda: nn.MaxPool2d(2),
    lambda: nn.Conv2d(6, 8, 3, padding=1),
)
DENSE = (nn.Flatten, lambda: nn.Linear(64, 48), nn.ReLU, lambda: nn.Linear(48, 24))


def test_small_messages_are_no_defence():
    bottom, truth = make(*CONV), images()
    small = make(*CONV)
    with torch.no_grad():
        small[3].weight.mul_(1e-3)
        small[3].bias.mul_(1e-3)
    attack = ModelInversion(steps=100)
    guesses = [attack.run(inversion_view(b, truth), rng()).values for b in (bottom, small)]
    assert torch.allclose(*guesses, atol=0.02)


@pytest.mark.parametrize("layers", [CONV, DENSE], ids=["conv", "dense"])
def test_images_come_back_through_a_known_bottom(layers):
    truth = images()
    guess = ModelInversion(images=10, steps=300, tv=0.3, l2=0.01).run(
        inversion_view(make(*layers), truth, train=2), rng()
    )
    assert guess.form is Form.VALUES and guess.rows.tolist() == list(range(2, 12))
    assert guess.values.shape == (10, 1, 8, 8)
    assert guess.values.min() >= 0 and guess.values.max() <= 1
    mean_image = truth.mean(dim=0)
    baseline = (truth[2:] - mean_image).pow(2).mean()
    assert (guess.values - truth[2:]).pow(2).mean() < baseline / 3


def test_messages_that_depend_on_nothing_give_nothing():
    truth, bottom = images(), make(*DENSE)
    view = inversion_view(bottom, truth[torch.randperm(12, generator=rng(3))])
    guess = ModelInversion(steps=300, tv=0.3, l2=0.01).run(view, rng())
    assert (guess.values - truth).pow(2).mean() > (truth - truth.mean(dim=0)).pow(2).mean()


def test_rows_of_tables_are_recovered_and_not_clipped():
    truth = 3 * torch.randn(9, 5, generator=rng(2))
    bottom = make(lambda: nn.Linear(5, 8))
    guess = ModelInversion(steps=800, lr=0.1, l2=0.0).run(inversion_view(bottom, truth), rng())
    assert (guess.values - truth).abs().max() < 0.05


def test_the_best_restart_is_chosen_by_the_objective(monkeypatch):
    ends, objective = torch.tensor([[1.0], [2.0], [3.0], [4.0]]), torch.tensor([0.1, 0.9, 0.2, 0.3])
    monkeypatch.setattr(inversion, "descend", lambda *_, **__: (ends, objective))
    view = inversion_view(make(lambda: nn.Linear(1, 1)), torch.zeros(2, 1))
    assert ModelInversion(restarts=2).run(view, rng()).values.tolist() == [[1.0], [4.0]]


def test_rows_do_not_depend_on_their_neighbours():
    truth, bottom = images(), make(*CONV)
    attack = ModelInversion(start="zeros", steps=40, relative=False)
    all_rows = attack.run(inversion_view(bottom, truth), rng()).values
    few = attack.run(inversion_view(bottom, truth[:3]), rng()).values
    assert torch.allclose(all_rows[:3], few, atol=1e-4)


class Sparse(nn.Module):
    def forward(self, inputs: SparseRows) -> torch.Tensor:
        return inputs.values[inputs.offsets[:-1]]


def test_inputs_that_cannot_be_searched_are_refused_in_one_sentence():
    view = world().view_for(ModelInversion())
    for bottom in (Sparse(), nn.Embedding(9, 2), nn.Linear(3, 2)):
        hints = type(view.hints)(bottoms={FEATURE: bottom}, shapes=view.hints.shapes)
        informed = type(view)(view.parties, view.manifest, view.channels, view.own, hints, FEATURE)
        with pytest.raises(Inapplicable, match="dense-only"):
            ModelInversion().run(informed, rng())
    with pytest.raises(ConfigError, match="bottom model"):
        ModelInversion().run(world().view("bank", victim=FEATURE), rng())


def test_what_else_it_refuses():
    view = inversion_view(make(lambda: nn.Linear(2, 4)), torch.rand(3, 2, generator=rng()), train=3)
    with pytest.raises(RunError, match="test rows"):
        ModelInversion().run(view, rng())
    for wrong in (
        {"images": 0},
        {"steps": 0},
        {"lr": 0},
        {"tv": -1},
        {"start": "ones"},
        {"low": 1, "high": 1},
    ):
        with pytest.raises(ConfigError):
            ModelInversion(**wrong)


def test_the_last_message_of_a_row_counts():
    bottom, rows = make(lambda: nn.Linear(2, 4)), torch.arange(3)
    truth, transcript = torch.rand(3, 2, generator=rng(1)), Transcript()
    view = inversion_view(bottom, truth)
    record(transcript, Kind.EMBEDDING, FEATURE, rows, torch.zeros(3, 4), 0, Phase.PREDICT)
    with torch.no_grad():
        record(transcript, Kind.EMBEDDING, FEATURE, rows.flip(0), bottom(truth.flip(0)), 1, Phase.PREDICT)
    twice = type(view)(
        view.parties, view.manifest, tuple(transcript.channels.values()), view.own, view.hints, view.victim
    )
    attack = ModelInversion(steps=50)
    assert torch.allclose(attack.run(twice, rng()).values, attack.run(view, rng()).values, atol=1e-4)
