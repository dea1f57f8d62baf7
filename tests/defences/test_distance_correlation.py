"""NoPeek: the term is the distance correlation of the metrics, and can be learned from."""

import pytest
import scipy.sparse
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import cutlayer as cl
from cutlayer.blocks.sparse import SparseRows
from cutlayer.defence import Local, Place
from cutlayer.defences import DistanceCorrelation
from cutlayer.errors import ConfigError
from cutlayer.metrics import dependence
from cutlayer.metrics.distance import distance_correlation
from tests.helpers.toy import draws, rng


def local(inputs, labels=None):
    return Local(Place.EMBEDDING, draws(), True, torch.arange(len(inputs.shape)), inputs=inputs, labels=labels)


def test_by_hand():
    # distances of -1, 0, 1 less their means: [[-10, 2, 8], [2, -4, 2], [8, 2, -10]] / 9, squares 360 / 81
    line = torch.tensor([[-1.0], [0.0], [1.0]])
    assert distance_correlation(line, 5 - 3 * line).item() == pytest.approx(1)
    # those of 1, 0, 1: [[-2, 4, -2], [4, -8, 4], [-2, 4, -2]] / 9, squares 144 / 81; products 72 / 81
    assert distance_correlation(line, line.square()).item() == pytest.approx((72 / (360 * 144) ** 0.5) ** 0.5)


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 40), st.integers(1, 30), st.integers(1, 6), st.integers(0, 99), st.booleans())
def test_it_is_the_metric(rows, columns, width, seed, repeated):
    inputs = torch.randn(rows, columns, generator=rng(seed))
    embedding = torch.randn(rows, width, generator=rng(seed + 1)) + inputs[:, :1]
    if repeated:
        inputs[0], embedding[0] = inputs[1], embedding[1]
    value = distance_correlation(inputs, embedding).item()
    assert value == pytest.approx(dependence.distance_correlation(inputs.numpy(), embedding.numpy()), abs=1e-6)


def test_images_and_maps_are_read_flat_and_the_weight_counts():
    inputs = torch.randn(8, 1, 3, 3, generator=rng())
    embedding = torch.randn(8, 2, 2, 2, generator=rng(1))
    penalty = DistanceCorrelation(weight=3.0).penalty(embedding, local(inputs))
    assert penalty.item() == pytest.approx(3 * distance_correlation(inputs.flatten(1), embedding.flatten(1)).item())


@pytest.mark.parametrize(
    "embedding",
    [
        torch.zeros(4, 2),
        torch.tensor([[1.0, 2.0], [1.0, 2.0], [0.0, 3.0], [1.0, 2.0]]),
        torch.tensor([[1e-20, 0.0], [0.0, 0.0], [2e-20, 0.0], [1.0, 0.0]]),
    ],
)
@pytest.mark.parametrize("inputs", [torch.eye(4), torch.ones(4, 3), torch.eye(4)[[0, 0, 1, 1]]])
def test_rows_that_coincide_leave_gradients_finite(embedding, inputs):
    embedding = embedding.clone().requires_grad_()
    loss = DistanceCorrelation().penalty(embedding, local(inputs))
    loss.backward()
    assert loss.isfinite() and embedding.grad.isfinite().all()


def test_its_gradient_is_right_and_lowers_it():
    inputs = torch.randn(6, 3, generator=rng(), dtype=torch.float64)
    embedding = torch.randn(6, 2, generator=rng(1), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda e: distance_correlation(inputs, e), (embedding,))
    before = distance_correlation(inputs, embedding)
    (slope,) = torch.autograd.grad(before, embedding)
    assert distance_correlation(inputs, embedding - 0.05 * slope) < before


def test_who_pays():
    inputs, embedding = torch.eye(3), torch.eye(3)
    assert DistanceCorrelation().penalty(embedding, local(inputs)).item() == pytest.approx(1)
    assert DistanceCorrelation().penalty(embedding, local(inputs, labels=torch.zeros(3))) is None
    assert DistanceCorrelation().penalty(embedding[:1], local(inputs[:1])) is None


def test_what_it_refuses():
    for weight in (0.0, -1.0, float("inf")):
        with pytest.raises(ConfigError, match="weight"):
            DistanceCorrelation(weight=weight)
    for inputs in (SparseRows.from_scipy(scipy.sparse.eye(3)), torch.ones(3, 3, dtype=torch.int64)):
        with pytest.raises(ConfigError, match="dense columns of numbers"):
            DistanceCorrelation().penalty(torch.eye(3), local(inputs))


def test_taught_bottoms_depend_less_on_their_inputs():
    task = cl.data.digits(label_party="labels", limit=600)
    left = []
    for defences in ([], [DistanceCorrelation(weight=3.0)]):
        run = cl.train(task, defences=defences, recipe=cl.Recipe(epochs=3, batch_size=64))
        name = task.feature_parties[0]
        rows = task.features[name].values[task.test]
        sent = run.models[f"{name}.bottom"].eval()(rows).detach()
        left.append(dependence.distance_correlation(rows.flatten(1).numpy(), sent.numpy()))
    assert left[1] < left[0] - 0.1
