"""GRN: its parts by hand, what it reads under each cut, and that rows come out where they should."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer.attack import Form
from cutlayer.attacks import Grn
from cutlayer.attacks.grn import network
from cutlayer.auditing.attacking import attack_run
from cutlayer.auditing.secret import secret_of
from cutlayer.blocks.sparse import SparseRows
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.data.task import Features, Goal, Task
from cutlayer.errors import ConfigError, Inapplicable, RunError
from cutlayer.judge import grant
from cutlayer.models import named
from cutlayer.rng import generator
from cutlayer.view import Own
from tests.helpers.toy import inversion_view, rng

ROWS, TEST = 500, 300


def layer(inputs: int, width: int) -> nn.Linear:
    linear = nn.Linear(inputs, width)
    with torch.no_grad():
        for weights in linear.parameters():
            weights.copy_(torch.randn(weights.shape, generator=rng(3)))
    return linear


@cache
def run_of(parties: int = 2, secure: bool = True, scheme: str = "bfv") -> cl.Run:
    """A short training on uniform columns, whose label party holds four of them."""
    draws = generator(1, "grn")
    features = {f"p{i}": Features(torch.rand(ROWS, 4, generator=draws)) for i in range(parties)}
    labels = (sum(f.values.sum(1) for f in features.values()) > 2 * parties).long()
    rows = torch.arange(ROWS)
    task = Task("toy", features, labels, "p0", Goal.BINARY, ("no", "yes"), rows[TEST:], rows[:TEST])
    models = {"bottoms": named.bottom("linear"), "top": named.top("relu-mlp:hidden=8"), "width": 8}
    recipe = cl.Recipe(epochs=1, batch_size=50, lr=0.05)
    return cl.train(task, cut=SecureSum(scheme=scheme) if secure else cl.Sum(), recipe=recipe, keep="none", **models)


def view_of_run(run: cl.Run, attack: Grn) -> cl.View:
    view = run.view("p0")
    return replace(view, hints=grant(attack.asks, view, secret_of(run), 0), victim="p1")


def test_the_network_is_the_papers():
    layers = [*network(7, 5, bounded=True)]
    assert [type(part).__name__ for part in layers] == [*["Linear", "LayerNorm", "ReLU"] * 3, "Linear", "Sigmoid"]
    sizes = [(part.in_features, part.out_features) for part in layers if isinstance(part, nn.Linear)]
    assert sizes == [(7, 600), (600, 200), (200, 100), (100, 5)]
    assert len(network(7, 5, bounded=False)) == len(layers) - 1


@pytest.mark.parametrize("shape", [(4,), (1, 2, 2)], ids=["table", "image"])
def test_rows_come_out_of_plain_embeddings(shape):
    inputs = torch.rand(300, *shape, generator=rng(1))
    bottom = nn.Sequential(nn.Flatten(), layer(4, 8))
    view = inversion_view(bottom, inputs, train=50)
    guess = Grn(epochs=40, lr=2e-3, images=240).run(view, rng())
    assert guess.form is Form.VALUES and guess.rows.tolist() == [*range(50, 290)]
    assert guess.values.shape == (240, *shape)
    assert float((guess.values - inputs[50:290]).pow(2).mean()) < 0.01  # the mean row: 1/12
    assert ((guess.values > 0) & (guess.values < 1)).all()


def test_unbounded_rows_and_every_epochs_answer():
    inputs = 5 * torch.randn(200, 3, generator=rng(1))
    attack = Grn(epochs=40, lr=1e-2, bounded=False)
    view = inversion_view(layer(3, 6), inputs)
    errors = [float((answer() - inputs[rows]).pow(2).mean()) for rows, answer in attack.epochs_of(view, rng())]
    assert len(errors) == 40 and errors[-1] < 1 < 10 < errors[0]
    assert torch.equal(attack.run(view, rng()).values, attack.run(view, rng()).values)


def test_noise_instead_of_messages_and_a_penalty_on_variance():
    inputs = torch.rand(256, 4, generator=rng(1))
    view = inversion_view(layer(4, 8), inputs)
    spread = {}
    for weight in (0.0, 1e4):
        guess = Grn(noise=True, variance=weight, epochs=20, lr=1e-3).run(view, rng())
        spread[weight] = float(guess.values.var(dim=0).mean())
        middle = inputs.mean(dim=0)
        assert (guess.values.mean(dim=0) - middle).abs().max() < 0.1  # nothing else is known about a row
    assert spread[1e4] < 1e-3 and spread[1e4] < spread[0.0]


def test_what_is_read_of_a_secure_sum():
    """The sum is the embedding and x_a W_mask, a message one of 2^40 numbers with 24 bits behind the point."""
    run = run_of()
    party, label = (run.session.parties[name] for name in ("p1", "p0"))
    holder = party.cut._holder
    attack = Grn(reads="sum")
    rows, seen = attack._read(view_of_run(run, attack))
    assert rows.tolist() == list(range(TEST))
    with torch.no_grad():
        embedding = party.bottom(party.features[rows])
    mask = torch.from_numpy(np.ldexp(holder.weights.astype(np.float64), -8)).float()  # 2 / sqrt(4) = 1: 8 bits
    torch.testing.assert_close(seen, embedding + label.features[rows] @ mask, atol=1e-3, rtol=0)
    _, sent = Grn(reads="message")._read(view_of_run(run, attack))
    assert -(2**15) <= float(sent.min()) < -(2**14) and 2**14 < float(sent.max()) < 2**15
    assert float(sent.std()) == pytest.approx(2**16 / 12**0.5, rel=0.05)  # uniform: nothing shows
    _, floats = Grn(reads="message")._read(view_of_run(run_of(scheme="none"), attack))
    assert float(floats.abs().max()) < 10 * float(seen.abs().max())  # masks in floats are as large as what they hide


def test_masks_hide_and_a_learned_mask_undoes_them():
    settings = {"epochs": 40, "lr": 1e-2}
    attacks = [Grn(reads=reads, **settings) for reads in ("message", "sum")]
    attacks.append(Grn(reads="sum", learn_mask=True, epochs=300, lr=3e-3))
    message, total, learned = attack_run(run_of(), attacks)
    (plain,) = attack_run(run_of(secure=False), [Grn(epochs=80, lr=1e-2)])
    assert plain.baseline_name == "mean row" and plain.value < 0.1 * plain.baseline
    assert message.value > message.baseline and total.value > total.baseline
    assert learned.value < 0.5 * learned.baseline


def test_where_it_does_not_apply():
    view = view_of_run(run_of(), Grn())
    three = view_of_run(run_of(3), Grn())
    plain = view_of_run(run_of(secure=False), Grn())
    for attack, seen, reason in (
        (Grn(), view, "masked"),
        (Grn(reads="message"), plain, "no mask"),
        (Grn(reads="sum"), plain, "no sum"),
        (Grn(reads="sum"), three, "one feature party"),
        (Grn(learn_mask=True), plain, "reads=sum"),
    ):
        with pytest.raises(Inapplicable, match=reason):
            attack.run(seen, rng())
    offsets = torch.zeros(ROWS + 1, dtype=torch.int64)
    held = SparseRows(offsets, offsets[:0], torch.empty(0), 3)
    with pytest.raises(Inapplicable, match="dense-only"):
        Grn().run(replace(plain, own={"p0": Own(held, None)}), rng())
    none = replace(view.manifest, test=torch.tensor([ROWS + 1]))
    with pytest.raises(RunError, match="opened sums"):
        Grn(reads="sum").run(replace(view, manifest=none), rng())


@pytest.mark.parametrize("setting", [("reads", "mind"), ("variance", -1.0), ("images", 0), ("epochs", 0), ("lr", 0.0)])
def test_what_it_refuses(setting):
    with pytest.raises(ConfigError):
        Grn(**dict([setting]))
