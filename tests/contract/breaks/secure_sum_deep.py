"""Secure sum with a deeper bottom at the label party: W_mask comes out, by the gradient or by the sums alone.

So it is refused. The weak variants are kept here: the gradient that was opened to the label party, and sums of rows
that change.
"""

import numpy as np
import pytest
import torch

import cutlayer as cl
from cutlayer.crypto import Agreement, Paillier, Ring
from cutlayer.cuts.parts.masking import Blind, Holder, places_of
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.errors import ConfigError
from cutlayer.message import Kind, Phase
from cutlayer.models.mlp import MLP
from cutlayer.plan import Plan, assemble
from cutlayer.transcript import Keep, Policy, Transcript
from tests.helpers.random_task import random_task
from tests.helpers.toy import rng

ROWS, HIDDEN, WIDTH = 64, 6, 5
RING = Ring(40, 24)


def opened_gradient(holder: Holder, blind: Blind, gradient: np.ndarray) -> np.ndarray:
    """As it was: [delta W_mask^T + mask], opened by the holder, the mask taken off by the label party."""
    transpose = holder.secret.encrypt(RING.wrap(np.ascontiguousarray(holder.weights.T)))
    operand = blind.public.read_operand(transpose.to_bytes(), (WIDTH, HIDDEN))
    plain = RING.encode_rows(gradient, 24)
    mask = RING.uniform((len(gradient), HIDDEN))
    product = blind.public.masked_product(plain, operand, mask).to_bytes()
    share = holder.secret.decrypt(holder.secret.public.read_result(product, len(gradient), (WIDTH, HIDDEN)))
    return RING.decode(RING.subtract(share, mask), 24 + places_of(HIDDEN))


def weak_sum(parties):
    """One batch of the weak variant: what the label party opens, its rows, its W_mask by division; embeddings."""
    scheme = Paillier(RING, 512, for_tests=True)
    holder = Holder(scheme, HIDDEN, WIDTH, 3)
    blind = Blind(scheme, HIDDEN, WIDTH, holder.public(), holder.operand())
    entered, *embeddings = (torch.randn(ROWS, size, generator=rng(size + i)) for i, size in enumerate([HIDDEN, 5, 5]))
    embeddings = embeddings[:parties]
    data, mask = blind.forward(entered, 100.0)
    messages = [RING.encode(embedding) for embedding in embeddings]
    messages[0] = RING.add(messages[0], holder.open(data, ROWS))
    if parties > 1:
        sides = {name: Agreement(name, "run", RING) for name in "ab"}
        for place, name in enumerate("ab"):
            side = sides[name].meet({other: sides[other].public for other in "ab" if other != name})
            messages[place] = RING.add(messages[place], side.zero_sum_mask(0, (ROWS, WIDTH)))
    gradient = torch.randn(ROWS, WIDTH, generator=rng(9)).double().numpy() / ROWS
    flowed = opened_gradient(holder, blind, gradient)
    guess = np.linalg.lstsq(gradient, flowed)[0].T
    truth = holder.weights / 2.0 ** places_of(HIDDEN)
    opened = RING.decode(RING.sum([*messages, mask])) - entered.double().numpy() @ guess
    return guess, truth, opened, [embedding.double().numpy() for embedding in embeddings], messages


def test_an_opened_gradient_gives_w_mask_and_the_partners_embedding():
    guess, truth, opened, (embedding,), _ = weak_sum(1)
    assert np.abs(guess - truth).max() < 1e-4
    assert np.abs(opened - embedding).max() < 1e-3


def test_with_two_feature_parties_their_sum_comes_out_and_neither_of_the_two():
    """W_mask is all that is lost: what is left is the sum of embeddings, as if the label party had no columns."""
    guess, truth, opened, embeddings, messages = weak_sum(2)
    assert np.abs(guess - truth).max() < 1e-4
    assert np.abs(opened - sum(embeddings)).max() < 1e-3
    for message in messages:
        assert (message / 2**40).var() == pytest.approx(1 / 12, rel=0.15)


def bottoms(features, width):
    layers = MLP(features.values.shape[1], [HIDDEN, width], bias=False, dropout=0.3)
    return layers if features.values.shape[1] == 4 else MLP(features.values.shape[1], [width], bias=False)


def deep_plan(cut):
    recipe = cl.Recipe(epochs=60, batch_size=16, lr=0.01, optimiser=cl.Optimiser.SGD, momentum=0.0)
    top = lambda inputs, outputs: MLP(inputs, [8, outputs], first_activation=True)  # noqa: E731
    return Plan(bottoms=bottoms, top=top, width=WIDTH, cut=cut, recipe=recipe)


def make_task():
    task = random_task("secure sum", ROWS, 2, 4, 1.0, own=True)
    values = task.features["p1"].values
    object.__setattr__(task.features["p1"], "values", torch.cat([values, values[:, :1] ** 2], dim=1))
    return task


def test_sums_of_rows_that_change_give_w_mask_whatever_the_gradient_is():
    """No gradient is opened here. What enters the last layer changes, by dropout and by training, and A knows it."""
    task, seen, entered = make_task(), Transcript(Keep(Policy.ALL)), []
    session = assemble(task, deep_plan(SecureSum(scheme="none")), seen.record)  # the same sums, in the clear
    session.label_party.bottom.bottom.layers[-1].register_forward_pre_hook(
        lambda _, given: entered.append(given[0].detach().double())
    )
    for epoch in range(60):
        session.train_epoch(epoch, task.train)
    rows, sums, _ = seen.channels["p0", "p0", Kind.SUM, Phase.TRAIN].read()
    order = rows.view(60, ROWS).argsort(dim=1)[:, :, None]
    hidden = torch.cat(entered).view(60, ROWS, HIDDEN).gather(1, order.expand(-1, -1, HIDDEN))
    total = sums.double().view(60, ROWS, WIDTH).gather(1, order.expand(-1, -1, WIDTH))
    guess = torch.linalg.lstsq(hidden.diff(dim=0).flatten(0, 1), total.diff(dim=0).flatten(0, 1)).solution
    truth = torch.from_numpy(session.parties["p1"].cut._holder.weights)
    assert float((guess - truth).norm() / truth.norm()) < 0.1


@pytest.mark.parametrize("scheme", ["bfv", "paillier"])
def test_so_it_is_refused(scheme):
    with pytest.raises(ConfigError, match="use --bottom linear, or --cut blind-layer"):
        assemble(make_task(), deep_plan(SecureSum(scheme=scheme)), lambda message: None)
