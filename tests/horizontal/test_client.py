"""A client of horizontal learning: running statistics, gradients and momentum."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.blocks.weights import pack, places, unpack
from cutlayer.defences import Sparsification
from cutlayer.horizontal.client import PREDICTION_ROWS
from cutlayer.horizontal.federation import Exchange, Federation, Method
from cutlayer.horizontal.members import client_of, server_of
from cutlayer.message import Phase
from cutlayer.plan import Plan
from tests.helpers.small_federation import RECIPE, TASK, federation, run


def with_norm(inputs, outputs):
    return torch.nn.Sequential(torch.nn.Linear(inputs, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, outputs))


def test_statistics_behind_a_private_bottom_are_of_the_own_rows():
    """Averaged ones would be of what other bottoms say; a shared bottom says the same everywhere."""
    result = run(method=Method.PRIVATE_BOTTOM, top=with_norm)
    for client in result.clients.values():
        with torch.no_grad():
            seen = client.top[0](client.bottom.eval()(client.features[client.rows]))
        assert client.top[1].running_mean == pytest.approx(seen.mean(dim=0), abs=1e-5)
        assert client.top[1].running_var == pytest.approx(seen.var(dim=0), rel=1e-4)
        assert client.top[1].momentum == 0.1
    first, second, _ = run(method=Method.FEDAVG, top=with_norm).clients.values()
    assert torch.equal(first.top[1].running_mean, second.top[1].running_mean)


def test_statistics_count_every_row_alike():
    """A client with more rows than fit into one pass: a short last batch must not count like a whole one."""
    (client,) = run(clients=1, rounds=1, method=Method.PRIVATE_BOTTOM, top=with_norm).clients.values()
    assert 1.2 < len(client.rows) / PREDICTION_ROWS < 1.6
    with torch.no_grad():
        seen = client.top[0](client.bottom.eval()(client.features[client.rows]))
    assert float(((client.top[1].running_mean - seen.mean(dim=0)) / seen.std(dim=0)).abs().max()) < 1e-3
    assert client.top[1].running_var == pytest.approx(seen.var(dim=0), rel=0.01)


def test_the_server_sees_its_own_statistics_not_the_clients():
    result = run(method=Method.PRIVATE_BOTTOM, top=with_norm)
    top = result.view("client0").own["server"].top
    assert torch.equal(pack([top]), result.server.weights)
    assert not torch.equal(top[1].running_mean, result.clients["client0"].top[1].running_mean)


def test_gradients_follow_the_schedule():
    """One client that sends gradients of single batches: as if it had trained alone, statistics included."""
    recipe = replace(RECIPE, epochs=4, momentum=0.0, schedule=cl.Steps(every=1, factor=0.1))
    options = {"clients": 1, "rounds": 4, "top": with_norm, "recipe": recipe}
    result = run(exchange=Exchange.GRADIENTS, **options)
    federation = Federation(plan=Plan(recipe=recipe, top=with_norm), clients=1)
    alone = client_of(TASK, federation, "client0")
    unpack(server_of(TASK, federation).weights, alone.shared)
    for turn in range(4):
        alone.begin_epoch(turn)
        alone.set_phase(Phase.TRAIN)
        alone._learn(alone._one_batch(turn))
        alone.update()
    assert result.server.weights == pytest.approx(pack(alone.shared), abs=1e-5)
    assert float(result.clients["client0"].top[1].running_var.min()) > 0


def test_noise_does_not_make_variances_negative():
    settings = replace(federation(), plan=Plan(recipe=RECIPE, top=with_norm))
    client = client_of(TASK, settings, "client0")
    client.take(torch.full_like(server_of(TASK, settings).weights, -1.0))
    assert client.top[1].running_var.tolist() == [0] * 8 and client.top[1].running_mean.tolist() == [-1] * 8


def test_statistics_do_not_take_the_place_of_gradients():
    """They are divided by the rate to cross as a gradient, but compared as what they are."""
    settings = replace(federation(exchange=Exchange.GRADIENTS), plan=Plan(recipe=RECIPE, top=with_norm))
    settings = replace(settings, plan=replace(settings.plan, defences=(Sparsification(share=0.05, on="update"),)))
    client, weights = client_of(TASK, settings, "client0"), server_of(TASK, settings).weights
    sent = client.gradient(weights, 0)[0].payload
    kept = {id(value): int((sent[here] != 0).sum()) for here, value in places(client.shared)}
    norm = client.top[1]
    assert sum(kept.values()) > 2 * (kept[id(norm.running_mean)] + kept[id(norm.running_var)])


def test_what_only_a_client_has_keeps_its_momentum():
    settings = federation(method=Method.PRIVATE_BOTTOM)
    client, weights = client_of(TASK, settings, "client0"), server_of(TASK, settings).weights
    client.fit(weights, 0)
    client._begin(weights, 1)
    own, shared = (
        [client.optimizer.state[p]["momentum_buffer"] for p in m.parameters()] for m in client.modules.values()
    )
    assert all(bool(buffer.any()) for buffer in own) and not any(bool(buffer.any()) for buffer in shared)
