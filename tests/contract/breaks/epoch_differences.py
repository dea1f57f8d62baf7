"""Sums of several epochs: W_mask stays, so their differences hold no mask. This one is not repaired, it is stated.

The sum of each epoch is what secure-sum opens on purpose. So the attack succeeds on ours, and the tests hold what the
documents say of it: it reads the change of the embeddings alone, noise that is fresh in every epoch stops it, and one
epoch leaves it nothing to subtract.
"""

import pytest
import torch

import cutlayer as cl
from cutlayer.cuts.secure_sum import SecureSum
from cutlayer.defences import GaussianNoise
from cutlayer.message import Kind, Phase
from cutlayer.models import named

EPOCHS, TOLD, ME, VICTIM = 4, 200, "party1", "party2"


def sums_of(run):
    """What the label party opened, by epoch: (epochs, rows, width)."""
    rows, sums, _ = next(c for c in run.view(ME).channels if c.kind is Kind.SUM and c.phase is Phase.TRAIN).read()
    order = rows.view(EPOCHS, -1).argsort(dim=1)[:, :, None]
    return sums.double().view(EPOCHS, order.shape[1], -1).gather(1, order.expand(-1, -1, sums.shape[1]))


def learned(seen, truth):
    """The error of ridge regression on the first rows, relative to the mean's, on the others; of penalties the best."""
    inputs, middle, errors = seen / seen.std(), truth[:TOLD].mean(dim=0), []
    inputs = inputs - inputs[:TOLD].mean(dim=0)
    for power in range(-4, 6):
        gram = inputs[:TOLD].T @ inputs[:TOLD] + 10.0**power * torch.eye(inputs.shape[1]).double()
        guess = inputs[TOLD:] @ torch.linalg.solve(gram, inputs[:TOLD].T @ (truth[:TOLD] - middle)) + middle
        errors.append(float((guess - truth[TOLD:]).pow(2).mean()))
    return min(errors) / float((truth[TOLD:] - middle).pow(2).mean())


@pytest.fixture(scope="module", params=[(), (GaussianNoise(std=1.0),)], ids=["ours", "fresh noise"])
def trained(request):
    task = cl.data.digits()
    run = cl.train(
        task,
        cut=SecureSum(),
        bottoms=named.bottom("linear"),
        top=named.top("relu-mlp"),
        width=64,
        epochs=EPOCHS,
        defences=request.param,
        keep="all",
    )
    truth = task.features[VICTIM].values[task.train.sort().values].flatten(1).double()
    return bool(request.param), sums_of(run), truth


def test_differences_of_epochs_give_the_partners_rows_unless_noise_is_fresh(trained):
    noisy, sums, truth = trained
    read = learned(sums.diff(dim=0).movedim(0, 1).flatten(1), truth)
    assert read > 0.8 if noisy else read < 0.1


def test_the_mask_is_not_in_them(trained):
    """Of sums, what is not linear in the partner's columns is the mask. Of their differences little is left: weights
    change within an epoch, so rows of early and late batches meet different ones."""
    noisy, sums, truth = trained
    inputs = torch.cat([truth, torch.ones(len(truth), 1).double()], dim=1)
    wholes = sums[0], sums[-1] - sums[0]
    left = [t - inputs @ torch.linalg.lstsq(inputs, t, driver="gelsd").solution for t in wholes]
    shares = [float(rest.pow(2).sum() / whole.pow(2).sum()) for rest, whole in zip(left, wholes, strict=True)]
    assert shares[0] > 0.02
    assert shares[1] > 0.5 if noisy else shares[1] < 0.3 * shares[0]
