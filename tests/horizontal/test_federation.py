"""Rounds: against a loop in plain torch, with clients that fail, and what may leave a client."""

from copy import deepcopy
from dataclasses import replace

import pytest
import torch
from torch.nn.functional import cross_entropy, one_hot

import cutlayer as cl
from cutlayer.attack import Target
from cutlayer.attacks import Decoder, ModelInversion
from cutlayer.auditing.attacking import attack_run
from cutlayer.blocks.weights import pack
from cutlayer.defences import GaussianNoise, Instahide, Passport, Sparsification
from cutlayer.defences.insta_hide import mixture
from cutlayer.errors import ConfigError, DataError, Diverged
from cutlayer.horizontal import ClientAnswer, federate
from cutlayer.horizontal.client import Client
from cutlayer.horizontal.federation import DEFAULT, Exchange, Federation, Method
from cutlayer.horizontal.members import client_of, server_of
from cutlayer.message import Kind
from cutlayer.plan import Plan
from cutlayer.settings import read_defences
from cutlayer.spec import find
from tests.helpers.small_federation import RECIPE, TASK, federation, run


def test_it_equals_a_loop_in_plain_torch():
    """FedAvg written out: copy, SGD over the client's batches, weighted mean."""
    result = run(weighted=True)
    settings = federation()
    server, clients = server_of(TASK, settings), [client_of(TASK, settings, name) for name in settings.names]
    weights = server.weights
    for turn in range(2):
        sums, total = torch.zeros_like(weights, dtype=torch.float64), 0
        for client in clients:
            client.take(weights)
            model = torch.nn.Sequential(client.bottom, client.top).train()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
            for rows in client._batches(turn):
                optimizer.zero_grad()
                cross_entropy(model(client.features[rows]), client.labels[rows]).backward()
                optimizer.step()
            sums, total = sums + pack([model]).double() * len(client.rows), total + len(client.rows)
        weights = (sums / total).float()
    assert result.server.weights == pytest.approx(weights, abs=1e-6)


def test_identical_clients_are_one_client():
    settings = federation(clients=1)
    alone = client_of(TASK, settings, "client0")
    weights = server_of(TASK, settings).weights
    first, second = (deepcopy(alone).fit(weights, 0) for _ in range(2))
    server = server_of(TASK, settings)
    server.merge({"a": first, "b": second}, 0)
    assert torch.equal(server.weights, first.payload)


def test_the_same_arguments_give_the_same_bits():
    assert torch.equal(run().server.weights, run().server.weights)
    assert not torch.equal(run().server.weights, run(seed=1).server.weights)


def test_it_learns_and_splitfed_learns_the_same():
    averaged, split = (run(method=method, rounds=15) for method in (Method.FEDAVG, Method.SPLITFED))
    assert averaged.metrics["accuracy"] > 0.9
    assert torch.equal(averaged.server.weights, split.server.weights)
    kinds = {(c.sender, c.receiver, c.kind) for c in split.view("client0").channels}
    assert ("client0", "server", Kind.EMBEDDING) in kinds and ("server", "client0", Kind.GRADIENT) in kinds
    assert not any(kind is Kind.WEIGHTS for _, _, kind in kinds)  # bottoms are averaged by somebody else


@pytest.mark.parametrize("exchange", list(Exchange))
def test_a_private_bottom_never_leaves_the_client(exchange):
    """Nothing that was serialised holds a bottom's weights, nor its passports' means; and sizes leave no room."""
    passport = Passport(mean_range=10.0, variance=1.0, where="bottom")
    result = run(method=Method.PRIVATE_BOTTOM, exchange=exchange, defences=[passport], keep="all")
    tops = {len(pack([client.top])) for client in result.clients.values()}
    for channel in result.transcript.channels.values():
        for message in channel.messages():
            assert {len(message.payload)} == tops
            for client in result.clients.values():
                for entry in client.bottom.state_dict().values():
                    if entry.is_floating_point() and entry.numel() > 3:
                        windows = message.payload.unfold(0, 4, 1)
                        assert not (windows == entry.flatten()[:4]).all(dim=1).any()
    bottoms = [client.bottom.state_dict() for client in result.clients.values()]
    assert not torch.equal(*(next(iter(state.values())) for state in bottoms[:2]))


def test_gradients_of_one_step_are_those_of_weights():
    """With plain SGD, one batch: the change of the weights is the gradient times the rate."""
    plain = cl.Recipe(batch_size=4096, optimiser=cl.Optimiser.SGD, lr=0.05, momentum=0.0)
    by_weights, by_gradients = (run(exchange=way, rounds=1, recipe=plain) for way in Exchange)
    assert by_gradients.server.weights == pytest.approx(by_weights.server.weights, abs=1e-6)


class Faulty:
    """Stands in for a client, and fails in the first round."""

    def __init__(self, client, fault):
        self.client, self.fault = client, fault

    def __getattr__(self, name):
        return getattr(self.client, name)

    def fit(self, weights, turn, record):
        answer = self.client.fit(weights, turn, record)
        return self.fault(answer) if turn == 0 else answer


def gone(answer):
    raise ConnectionResetError("gone")


@pytest.mark.parametrize(
    ("fault", "expected"),
    [
        (gone, {"absent": ["client1"], "refused": {}}),
        (
            lambda a: ClientAnswer(a.payload * float("nan"), a.rows),
            {"absent": [], "refused": {"client1": "expected finite"}},
        ),
        (lambda a: a._replace(payload=a.payload[1:]), {"absent": [], "refused": {"client1": "expected"}}),
    ],
)
def test_a_round_goes_on_without_a_client_that_fails(fault, expected):
    result = run(rounds=1)
    broken, honest = (run(rounds=1) for _ in range(2))
    for outcome, names in ((broken, ["client0", "client1", "client2"]), (honest, ["client0", "client2"])):
        outcome.history.clear()
        outcome.server.weights = server_of(TASK, outcome.federation).weights
        outcome.clients = {name: client_of(TASK, outcome.federation, name) for name in names}
    broken.clients["client1"] = Faulty(broken.clients["client1"], fault)
    broken.round(0)
    honest.round(0)
    (entry,) = broken.history
    assert entry["absent"] == expected["absent"] and list(entry["refused"]) == list(expected["refused"])
    assert all(entry["refused"][name].startswith(why) for name, why in expected["refused"].items())
    assert torch.equal(broken.server.weights, honest.server.weights)
    assert not torch.equal(broken.server.weights, result.server.weights)
    broken.round(1)
    assert broken.history[1]["absent"] == [] and broken.history[1]["refused"] == {}


@pytest.mark.parametrize(
    "defence",
    [GaussianNoise(std=1e-3, on="update"), Sparsification(share=0.1, on="update")],
    ids=lambda defence: defence.describe(),
)
def test_defences_change_what_is_sent_and_training_goes_on(defence):
    plain, defended = run(rounds=3), run(rounds=3, defences=[defence])
    assert not torch.equal(plain.server.weights, defended.server.weights)
    assert defended.metrics["accuracy"] > 0.3


def test_instahide_mixes_a_clients_labels():
    """A top of zeros says 1/10 for every class, so its bias' gradient is that less the mean mixed label."""
    plan = Plan(recipe=replace(RECIPE, epochs=1), defences=(Instahide(k=3),))
    settings = Federation(plan=plan, clients=2, method=Method.PRIVATE_BOTTOM, exchange=Exchange.GRADIENTS)
    client = client_of(TASK, settings, "client0")
    answer, rows = client.gradient(torch.zeros_like(server_of(TASK, settings).weights), 0)
    partners, shares = mixture(rows, 3, plan.seed)
    labels = one_hot(TASK.labels[rows], 10).double()
    mixed = (shares[:, :, None] * labels[partners]).sum(dim=1)
    assert answer.payload[-10:].double() == pytest.approx(0.1 - mixed.mean(dim=0), abs=1e-6)
    assert not torch.allclose(mixed.mean(dim=0), labels.mean(dim=0))


def test_sparse_updates_hold_the_largest_changes_only():
    settings = Federation(plan=Plan(recipe=RECIPE, defences=(Sparsification(share=0.1, on="update"),)), clients=2)
    weights = server_of(TASK, settings).weights
    sent = client_of(TASK, settings, "client0").fit(weights, 0).payload
    assert 0 < int((sent != weights).sum()) <= 0.1 * len(weights)


def test_the_server_inverts_what_bottoms_say():
    """The attacks of vertical learning run as they are: the server sees outputs, as in the paper's threat model."""
    result = run(rounds=3, clients=2)
    inverted, decoded = attack_run(result, [ModelInversion(images=20, steps=100), Decoder(pairs=200)])
    assert inverted.status == decoded.status == "done"
    assert decoded.value < decoded.baseline and decoded.victim == "client0"


def test_a_bottom_says_no_more_than_attacks_ask_for(monkeypatch):
    """A picture's maps are many numbers: only test rows, and the client's own where an attack knows some of them."""
    result, counts, outputs = run(rounds=1, clients=2), [], Client.outputs

    def counted(self, rows, *more):
        counts.append(len(rows))
        return outputs(self, rows, *more)

    monkeypatch.setattr(Client, "outputs", counted)
    attack_run(result, [ModelInversion(images=2, steps=1)], by="client1")
    assert counts == [len(TASK.test)]
    attack_run(result, [Decoder(pairs=20)], by="client1")
    assert counts[1:] == [len(result.clients["client1"].rows) + len(TASK.test)]
    with pytest.raises(ConfigError, match="client7"):
        attack_run(result, [], by="client7")


def test_audit_trains_by_federating():
    report = cl.audit(
        TASK,
        defences={"none": [], "noise": [GaussianNoise(std=0.1, on="update")]},
        attacks=[Decoder(pairs=100)],
        trainer=federate,
        clients=2,
        rounds=1,
    )
    assert [row["defence"] for row in report.rows] == ["none", "noise"]
    assert all(row["status"] == "done" and row["bytes"] > 0 for row in report.rows)


def test_evaluation_is_the_mean_over_clients_with_bottoms_of_their_own():
    result = run(method=Method.PRIVATE_BOTTOM, alpha=0.3)
    assert result.metrics["worst_accuracy"] < result.metrics["accuracy"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"clients": 0}, "clients"),
        ({"method": "fedprox"}, "method"),
        ({"exchange": "models"}, "exchange"),
        ({"passes": 0}, "passes"),
        ({"alpha": -1.0}, "alpha"),
        ({"defences": [Passport()]}, "private-bottom"),
        ({"method": Method.SPLITFED, "exchange": Exchange.GRADIENTS}, "exchange=weights"),
    ],
)
def test_wrong_settings_are_one_sentence(options, message):
    with pytest.raises(ConfigError, match=message):
        run(**options)


def test_columns_of_several_parties_are_refused():
    with pytest.raises(DataError, match="parties=1"):
        federate(cl.data.digits(parties=2))
    with pytest.raises(ConfigError, match="client9"):
        client_of(TASK, federation(), "client9")
    assert DEFAULT.batch_size == 64


def test_training_that_ends_in_nothing_is_said():
    with pytest.raises(Diverged, match="not finite at its end"):
        run(rounds=1, defences=[GaussianNoise(std=1e30, on="update")])


@pytest.mark.parametrize("name", sorted(find(cl.defences, cl.Defence)))
def test_a_defence_protects_clients_or_is_refused(name):
    """None is listed that does nothing."""
    (defence,) = read_defences([name])
    settings = {"method": Method.PRIVATE_BOTTOM, "rounds": 1, "clients": 1}
    if defence.clients:
        assert not torch.equal(run(**settings).server.weights, run(**settings, defences=[defence]).server.weights)
    else:
        with pytest.raises(ConfigError, match="protects a client of horizontal learning"):
            run(**settings, defences=[defence])


def test_words_are_no_objects():
    with pytest.raises(ConfigError, match=r"list of objects, such as \[cl.defences"):
        federate(TASK, defences="instahide")
    with pytest.raises(ConfigError, match="Expected task to be an object"):
        federate("digits")


@pytest.mark.parametrize("spelling", ["gaussian-noise:on=gradient", "sparsification", "passport:where=top"])
def test_so_is_one_that_does_it_elsewhere(spelling):
    with pytest.raises(ConfigError, match=spelling):
        run(defences=read_defences([spelling]))


def test_attacks_on_labels_and_those_that_retrace_steps_are_for_vertical_learning():
    attacks = [cls() for cls in find(cl.attacks, cl.Attack).values()]
    attacks = [attack for attack in attacks if attack.target is Target.LABELS or attack.asks.course]
    assert "cafe" in {attack.name for attack in attacks}
    assert {finding.reason for finding in attack_run(run(rounds=1, clients=1), attacks)} == {"vertical-only"}


def test_a_shared_bottom_needs_no_substitute():
    attack = cl.attacks.QueryFreeInversion(shadow=50, epochs=1, steps=1, images=5)
    (finding,) = attack_run(run(method=Method.FEDAVG, rounds=1), [attack])
    assert finding.status == "does not apply" and "model-inversion" in finding.reason
    (finding,) = attack_run(run(method=Method.PRIVATE_BOTTOM, rounds=1), [attack])
    assert finding.status == "done"
