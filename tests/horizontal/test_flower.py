"""Flower: real SuperLink and SuperNodes on this machine end with the bits of the simulation; and strangers' answers."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from flwr.app import Array, Context, Error, Message, MessageType, MetricRecord, RecordDict
from flwr.common.serde import context_from_proto, context_to_proto
from flwr.proto.message_pb2 import Context as ProtoContext
from flwr.supercore.task_identity import TaskIdentity
from safetensors import safe_open
from safetensors.torch import load_file

import cutlayer as cl
from cutlayer.blocks.weights import pack
from cutlayer.defences import GaussianNoise, Passport
from cutlayer.errors import ConfigError, RunError
from cutlayer.horizontal import federate
from cutlayer.horizontal.federation import Exchange, Federation, Method
from cutlayer.horizontal.flower import _read, _written, client_app, server_app
from cutlayer.horizontal.members import server_of
from cutlayer.plan import Plan
from tests.helpers.flower_processes import Flower

EXAMPLE = Path(__file__).parents[2] / "examples" / "flower"
TASK = cl.data.digits(parties=1, label_party="server")
RECIPE = cl.Recipe(batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.05)
PASSPORT = Passport(mean_range=10.0, variance=1.0, where="bottom")


def test_processes_end_with_the_bits_of_the_simulation(tmp_path):
    """The example. Each message is answered by a new process, so bottoms and passports live in the nodes: the second
    round's weights depend on them."""
    with Flower(tmp_path) as flower:
        weights, history = flower.run(EXAMPLE)
    expected = federate(TASK, clients=2, rounds=2, recipe=RECIPE, method=Method.PRIVATE_BOTTOM, defences=[PASSPORT])
    assert history == [{"round": turn, "absent": [], "refused": {}} for turn in range(2)], flower.output
    assert torch.equal(weights, expected.server.weights)


class Here:
    """A grid in this process: contexts and messages cross as bytes, as they do between processes."""

    def __init__(self, app, config, fault=lambda number, turn, reply: reply):
        self.app, self.fault, self.sent = app, fault, []
        self.contexts = [
            context_to_proto(Context(1, 100 + n, {"partition-id": n} | config, RecordDict(), {})).SerializeToString()
            for n in (1, 0)  # not in the clients' order
        ]

    def get_node_ids(self):
        return [context_from_proto(ProtoContext.FromString(data)).node_id for data in self.contexts]

    def send_and_receive(self, messages, timeout):
        replies = []
        for place, message in enumerate(messages):
            context = context_from_proto(ProtoContext.FromString(self.contexts[place]))
            turn = message.content["facts"]["round"]
            try:
                reply = self.fault(context.node_id - 100, turn, self.app(message, context))
            except RuntimeError as error:
                reply = Message(Error(code=1, reason=str(error)), reply_to=message)
            self.contexts[place] = context_to_proto(context).SerializeToString()
            self.sent += [message, *([reply] if reply else [])]
            replies += [reply] if reply else []
        return replies


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a federation through both apps; the last weights, the history and the grid."""
    for name in ("_task_id", "_run_id", "_node_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)

    def go(task=lambda: TASK, *, config=None, fault=lambda number, turn, reply: reply, own_rows=False, **options):
        defences = tuple(options.pop("defences", ()))
        plan = Plan(recipe=replace(RECIPE, epochs=options.pop("rounds", 2)), defences=defences)
        federation = Federation(plan=plan, **{"clients": 2} | options)
        grid = Here(client_app(task, federation, own_rows=own_rows), {"seed": 0} if config is None else config, fault)
        grid.contexts = grid.contexts[-federation.clients :]
        path = tmp_path / "final.safetensors"
        server_app(lambda: TASK, federation)(grid, Context(1, 1, {}, RecordDict(), {"final": str(path), "timeout": 5}))
        with safe_open(path, "pt") as file:
            return file.get_tensor("weights"), json.loads(file.metadata()["history"]), grid

    return go


@pytest.mark.parametrize(
    "options",
    [
        {"method": Method.FEDAVG},
        {"method": Method.FEDAVG, "exchange": Exchange.GRADIENTS},
        {"method": Method.FEDAVG, "defences": [GaussianNoise(std=0.01, on="update")]},
        {"method": Method.PRIVATE_BOTTOM, "defences": [PASSPORT], "weighted": False, "alpha": 0.5},
        {"method": Method.PRIVATE_BOTTOM, "defences": [PASSPORT], "exchange": Exchange.GRADIENTS},
    ],
    ids=["fedavg", "gradients", "noise", "passports", "passports-gradients"],
)
def test_all_methods_have_the_bits_of_the_simulation(run, options):
    """Noise and passports: the random stream goes on where the round before left it."""
    weights, history, _ = run(rounds=3, **options)
    expected = federate(TASK, clients=2, rounds=3, recipe=RECIPE, **options)
    assert torch.equal(weights, expected.server.weights)
    assert [entry | {"loss": 0} for entry in history] == [entry | {"loss": 0} for entry in expected.history]


def test_only_shared_weights_and_numbers_cross(run):
    _, _, grid = run(method=Method.PRIVATE_BOTTOM, defences=[PASSPORT])
    bottoms = federate(
        TASK, clients=2, rounds=2, recipe=RECIPE, method=Method.PRIVATE_BOTTOM, defences=[PASSPORT]
    ).clients
    for message in grid.sent:
        assert not message.has_error()
        if message.content:
            vector, facts = _read(message.content)
            assert vector.shape == pack([bottoms["client0"].top]).shape and set(facts) <= {"round", "rows", "client"}
    last = b"".join(message.content["weights"]["weights"].data for message in grid.sent if message.content)
    for client in bottoms.values():
        for value in client.bottom.state_dict().values():
            assert value.numel() < 4 or value.flatten()[:4].numpy().tobytes() not in last


def test_a_client_keeps_its_own_bottom_and_the_last_top(run, tmp_path):
    weights, _, _ = run(clients=1, method=Method.PRIVATE_BOTTOM, config={"seed": 0, "keep": str(tmp_path / "mine")})
    (client,) = federate(TASK, clients=1, rounds=2, recipe=RECIPE, method=Method.PRIVATE_BOTTOM).clients.values()
    kept = load_file(tmp_path / "mine")
    for part, module in client.modules.items():
        assert all(torch.equal(kept[f"model/{part}/{key}"], value) for key, value in module.state_dict().items())
    assert torch.equal(
        torch.cat([value.flatten() for key, value in kept.items() if "/top/" in key]).sort()[0], weights.sort()[0]
    )
    assert (tmp_path / "mine").stat().st_mode & 0o77 == 0


def test_without_a_seed_a_client_draws_one_that_nobody_knows(run):
    """Everybody knows the plan's seed, so nothing private may derive from it."""
    tops = [run(method=Method.PRIVATE_BOTTOM, config={})[0] for _ in range(2)]
    known = federate(TASK, clients=2, rounds=2, recipe=RECIPE, method=Method.PRIVATE_BOTTOM).server.weights
    assert not torch.equal(*tops) and not torch.equal(tops[0], known)


def test_a_client_may_hold_its_own_rows_alone(run):
    few = replace(TASK, train=TASK.train[:1])
    _, _, grid = run(lambda: few, own_rows=True, rounds=1)
    assert [m.content["facts"]["rows"] for m in grid.sent if m.content and "rows" in m.content["facts"]] == [1, 1]


def broken(change):
    """A reply of client 1 in round 0, changed."""

    def fault(number, turn, reply):
        if number == 1 and turn == 0:
            change(reply.content)
        return reply

    return fault


def vector(change):
    def changed(content):
        content["weights"]["weights"] = Array(change(content["weights"]["weights"].numpy()))

    return broken(changed)


FAULTS = {
    "not finite": (vector(lambda v: v * np.nan), "client1", "finite"),
    "too short": (vector(lambda v: v[1:]), "node 101", "numbers, got a shape"),
    "other type": (vector(lambda v: v.astype(np.float64)), "node 101", "float32"),
    "bytes": (broken(lambda c: setattr(c["weights"]["weights"], "data", b"x")), "node 101", "bytes that are none"),
    "no facts": (broken(lambda c: c.pop("facts")), "node 101", "expected weights and facts"),
    "no rows": (broken(lambda c: c["facts"].pop("rows")), "node 101", "'rows'"),
    "text": (broken(lambda c: c["facts"].update(rows="many")), "node 101", "whole numbers"),
    "more": (broken(lambda c: c.update(bottom=MetricRecord({"a": 1.0}))), "node 101", "nothing else"),
    "other record": (broken(lambda c: c.update(weights=MetricRecord({"weights": 1}))), "node 101", "weights and facts"),
    "no row": (broken(lambda c: c["facts"].update(rows=0)), "client1", "at least one row"),
    "stranger": (broken(lambda c: c["facts"].update(client=7)), "node 101", "from 0 to 1"),
    "old": (broken(lambda c: c["facts"].update(round=5)), "client1", "round 0"),
}


@pytest.mark.parametrize(("fault", "who", "why"), FAULTS.values(), ids=FAULTS)
def test_malformed_answers_are_refused_by_name_and_the_rest_go_on(run, fault, who, why):
    weights, history, _ = run(fault=fault)
    assert list(history[0]["refused"]) == [who] and why in history[0]["refused"][who]
    assert history[1] == {"round": 1, "absent": [], "refused": {}}
    assert torch.isfinite(weights).all()


def test_nodes_that_say_they_are_the_same_client_are_both_refused(run):
    _, history, _ = run(fault=broken(lambda content: content["facts"].update(client=0)))
    assert list(history[0]["refused"]) == ["client0"] and "several" in history[0]["refused"]["client0"]
    assert history[0]["absent"] == ["client1"] and history[1] == {"round": 1, "absent": [], "refused": {}}


@pytest.mark.parametrize("how", ["silent", "failed"])
def test_who_does_not_answer_is_absent(run, how):
    def fault(number, turn, reply):
        if number == 1 and turn == 0:
            if how == "failed":
                raise RuntimeError("gone")
            return None
        return reply

    _, history, _ = run(fault=fault)
    assert [entry["absent"] for entry in history] == [["client1"], []]


def test_the_text_of_an_error_stays_at_the_node(run, caplog):
    def table():
        raise ValueError("row 17 of patients.csv says 'HIV'")

    with pytest.raises(RunError, match="got none that could be used in any round"), caplog.at_level("INFO", "flwr"):
        run(table, rounds=1)
    lines = [line for line in caplog.messages if "failed" in line]
    assert lines == [f"Node {node} failed: ValueError, see the log of the node" for node in (101, 100)]


def test_a_node_that_was_started_anew_keeps_no_untrained_model(run, tmp_path):
    federation = Federation(plan=Plan(recipe=RECIPE), clients=2, method=Method.PRIVATE_BOTTOM)
    grid = Here(client_app(lambda: TASK, federation), {"seed": 0, "keep": str(tmp_path / "mine")})
    last = _written(server_of(TASK, federation).weights, {"round": 2})
    (reply,) = grid.send_and_receive([Message(last, 101, MessageType.QUERY)], 5)
    assert reply.error.reason == "ProtocolError, see the log of the node" and not (tmp_path / "mine").exists()


def test_wrong_settings_are_one_sentence(run):
    with pytest.raises(ConfigError, match="splitfed"):
        client_app(lambda: TASK, Federation(plan=Plan(recipe=RECIPE), method=Method.SPLITFED))
    with pytest.raises(RunError, match=r"Expected 2 nodes within .* seconds, found 0"):
        federation = Federation(plan=Plan(recipe=RECIPE), clients=2)
        grid = Here(None, {})
        grid.contexts = []
        server_app(lambda: TASK, federation)(grid, Context(1, 1, {}, RecordDict(), {"timeout": 0.1}))
