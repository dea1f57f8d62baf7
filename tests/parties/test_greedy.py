"""A greedy party's steps, by hand; honest parties, checkpoints and run folders next to it."""

import pytest
import torch
from torch import nn

import cutlayer as cl
from cutlayer import training
from cutlayer.cli import main
from cutlayer.parties.greedy import GreedyParty, hurried
from cutlayer.party import FeatureParty
from cutlayer.plan import Plan, assemble
from cutlayer.run import Run, read_record
from cutlayer.settings import Settings
from cutlayer.training import train_plan
from tests.helpers.interruption import Stop, stop_at
from tests.helpers.small_task import bottom, make_task, top

RECIPE = cl.Recipe(epochs=2, batch_size=32)
PLAN = Plan(bottoms=bottom, top=top, width=6, recipe=RECIPE, seed=3, parties={"p1": GreedyParty})
SGD = cl.Recipe(batch_size=32, optimiser=cl.Optimiser.SGD, lr=0.5, momentum=0.0)


def test_ratios_by_hand():
    """1 + s / last, from 1 to 5: 2 = 1 (1 + 1/1), 1.5 = 1 (1 + 1/2), a turn of 1, a leap of 5, and rests."""
    last, taken = None, []
    for step in (1.0, 1.0, 1.0, -1.0, -10.0, 0.0, 3.0):
        last = hurried(torch.tensor([step]), last)
        taken.append(last.item())
    assert taken == [1, 2, 1.5, -1, -50, 0, 3]


def test_three_updates_by_hand():
    """SGD at 0.5 with gradients 2, 2 and -4: honest steps -1, -1, 2; taken -1, -2 and 2."""
    plan = Plan(
        bottoms=lambda features, width: nn.Linear(features.values.shape[1], 2), recipe=SGD, parties={"p1": GreedyParty}
    )
    party = assemble(make_task(3, "p0"), plan, lambda message: None).parties["p1"]
    (weight, bias), start = party.parameters, [p.detach().clone() for p in party.parameters]
    for gradient, moved in ((2.0, -1.0), (2.0, -3.0), (-4.0, -1.0)):
        weight.grad, bias.grad = torch.full_like(weight, gradient), torch.zeros_like(bias)
        party.update()
        assert torch.allclose(weight.detach() - start[0], torch.tensor(moved), atol=1e-5)
        assert torch.equal(bias.detach(), start[1])


def test_only_the_party_that_is_named_cheats_and_its_first_step_is_honest():
    task = make_task(3, "p0")
    plans = (PLAN, Plan(**{**vars(PLAN), "parties": {}}))
    greedy, honest = (assemble(task, plan, lambda message: None) for plan in plans)
    assert [type(greedy.parties[name]) for name in ("p1", "p2")] == [GreedyParty, FeatureParty]
    for rows, same in ((torch.arange(32), True), (torch.arange(32, 64), False)):
        for session in (greedy, honest):
            session.train_epoch(0, rows)
        pairs = [zip(greedy.parties[n].parameters, honest.parties[n].parameters, strict=True) for n in ("p1", "p2")]
        equal = [all(torch.allclose(a, b, atol=1e-6) for a, b in pair) for pair in pairs]
        assert equal == [same, True]  # p2 has only ever met the top of honest first steps


def test_a_greedy_run_resumes_to_the_same_bits_and_reopens(tmp_path, monkeypatch):
    monkeypatch.setattr(training, "CHECKPOINT_SECONDS", 0.0)
    task = make_task(3, "p0")
    whole = train_plan(task, PLAN, out=tmp_path / "whole")
    with pytest.raises(Stop):
        train_plan(task, PLAN, out=tmp_path / "cut", progress=stop_at(len(task.train) // 32 + 3))
    resumed = train_plan(task, PLAN, out=tmp_path / "cut", resume=True)
    assert resumed.to_json()["models"] == whole.to_json()["models"]
    assert type(Run.open(tmp_path / "cut", task, PLAN).session.parties["p1"]) is GreedyParty


def test_from_the_command_line_and_back(tmp_path, capsys):
    out = tmp_path / "run"
    train = ["train", "--data", "digits", "--parties", "2", "--epochs", "1", "--out", str(out)]
    assert main([*train, "--greedy", "b"]) == 2
    assert "Expected 'b', a GreedyParty, to be a feature party, one of" in capsys.readouterr().err
    name = cl.data.digits(parties=2).feature_parties[0]
    assert main([*train, "--greedy", name]) == 0
    record = read_record(out)["plan"]
    assert record["kinds"] == {name: "greedy-party"}
    assert Settings.of_json(record).plan().parties == {name: GreedyParty}


def test_look_ahead_beside_it_is_refused():
    with pytest.raises(cl.ConfigError, match="lookahead=2 beside b as a GreedyParty"):
        Plan(parties={"b": GreedyParty}, lookahead=2)
