"""Rows whose parties disagree: flags by hand, counted in training and prediction, stated in run.json."""

import json

import pytest
import torch

import cutlayer as cl
import cutlayer.defences as package
from cutlayer.auditing.secret import predict_with
from cutlayer.blocks.codebook import target_codes
from cutlayer.defence import Defence
from cutlayer.defences import AbnormalCodes, Hash
from cutlayer.message import Phase
from cutlayer.plan import Plan
from cutlayer.run import Run
from cutlayer.spec import parse
from cutlayer.transcript import LAST
from tests.helpers.hashing import easy_task, here, train
from tests.helpers.small_task import make_task

RECIPE = cl.Recipe(epochs=25, batch_size=32, lr=0.01)


def code(*rows):
    return torch.tensor([[1.0 if bit == "+" else -1.0 for bit in row] for row in rows])


def flags(arrived, own=None, **settings):
    return AbnormalCodes(**settings).inspect(arrived, own, here()).tolist()


def test_three_parties_by_hand():
    """The largest of the three distances per row: 0, 1, 2, 3, 4. More than half of four bits is three."""
    arrived = {
        "p0": code("++++", "++++", "++++", "++++", "++++"),
        "p1": code("++++", "+++-", "++++", "+++-", "++++"),
        "p2": code("++++", "++++", "++--", "--++", "----"),
    }
    assert flags(arrived) == [False, False, False, True, True]
    assert flags(arrived, distance=0) == [False, True, True, True, True]
    assert flags(arrived, distance=1) == [False, False, True, True, True]
    assert flags(arrived, distance=3) == [False, False, False, False, True]
    assert flags(arrived, distance=4) == [False] * 5


def test_more_than_half_of_an_odd_length():
    """Of three bits, half is 1.5: two that differ are flagged."""
    assert flags({"p0": code("+++", "+++"), "p1": code("++-", "+--")}) == [False, True]


def test_the_label_partys_own_embedding_takes_part_by_its_sign():
    own = torch.tensor([[0.3, -2.0, 0.0, 5.0], [0.3, 2.0, 0.0, 5.0]])
    assert flags({"p1": code("-+-+", "++++")}, own) == [True, False]


def test_the_party_that_differs_may_stand_anywhere():
    same, other = code("++++"), code("---+")
    for odd in range(3):
        assert flags({f"p{i}": other if i == odd else same for i in range(3)}) == [True]


def test_one_code_has_nothing_to_differ_from():
    assert flags({"p1": code("+-", "--")}) == [False, False]


def test_feature_maps_are_compared_whole():
    first = torch.ones(2, 2, 2, 2)
    second = first.clone()
    second[1, :, :, 0] = -1
    second[1, 0] = -1  # six of eight
    assert flags({"p0": first, "p1": second}) == [False, True]


def test_codes_of_different_lengths_cannot_be_compared():
    with pytest.raises(cl.ProtocolError, match=r"codes of one length to compare, got \[2, 3\]; give parties one width"):
        flags({"p0": code("++"), "p1": code("+++")})


def test_it_changes_nothing_that_is_trained():
    assert (
        train(None, Hash(bits=4), AbnormalCodes()).to_json()["models"] == train(None, Hash(bits=4)).to_json()["models"]
    )


@pytest.mark.parametrize("label_party", ["p0", "server"])
def test_flags_are_those_of_the_codes_that_crossed(label_party):
    run = train(make_task(3, label_party), Hash(bits=6), AbnormalCodes(distance=3), keep="all")
    label = run.session.label_party
    sent = {}
    for (name, *_), channel in run.transcript.channels.items():
        if name in run.task.feature_parties:
            rows, sent[name], _ = channel.read(LAST)
    odd = torch.zeros(len(rows), dtype=torch.bool)
    names = list(sent)
    for i, a in enumerate(names):
        for b in names[i + 1 :]:
            odd |= (sent[a] != sent[b]).sum(dim=1) > 3
    flagged = torch.cat(label.flags[Phase.TRAIN])
    assert len(label.flags[Phase.TRAIN]) == 4 and len(rows) == 120  # of the last epoch
    if label_party == "server":
        assert torch.equal(flagged, rows[odd])
    else:  # its own embedding takes part too
        assert len(flagged) > odd.sum() and torch.isin(rows[odd], flagged).all()
    assert set(torch.cat(label.flags[Phase.PREDICT]).tolist()) <= set(run.task.test.tolist())


def test_run_json_states_the_share_per_phase(tmp_path):
    task = make_task(3, "server")
    plan = Plan(defences=(Hash(bits=6), AbnormalCodes(distance=2)), recipe=cl.Recipe(epochs=3, batch_size=32))
    run = cl.training.train_plan(task, plan, out=tmp_path / "run")
    label = run.session.label_party
    stated = json.loads((tmp_path / "run/run.json").read_text())["flagged"]
    assert stated == {
        "train": sum(map(len, label.flags[Phase.TRAIN])) / 120,  # of the last epoch
        "predict": sum(map(len, label.flags[Phase.PREDICT])) / 30,
    }
    assert 0 < stated["train"] < 1 and 0 < stated["predict"] < 1
    run.predict(task.test)
    assert run.to_json()["flagged"] == stated  # a second look at the same rows adds nothing
    again = Run.open(tmp_path / "run", task, plan)
    assert "flagged" not in again.to_json()
    again.evaluate(task.test)
    assert again.to_json()["flagged"] == {"predict": stated["predict"]}


def test_two_checks_count_a_row_once():
    single = train(None, Hash(bits=6), AbnormalCodes(distance=2)).to_json()["flagged"]
    double = train(None, Hash(bits=6), AbnormalCodes(distance=2), AbnormalCodes(distance=4)).to_json()["flagged"]
    assert single == double


def test_run_json_is_silent_if_nobody_flags():
    for defences in ((), (Hash(bits=6),)):
        run = train(None, *defences)
        assert "flagged" not in run.to_json() and not any(run.session.label_party.flags.values())


def test_only_flagged_rows_are_remembered():
    run = train(None, Hash(bits=6), AbnormalCodes(distance=6))
    assert sum(map(len, run.session.label_party.flags[Phase.TRAIN])) == 0
    assert run.to_json()["flagged"] == {"train": 0, "predict": 0}


def easy_runs(**settings):
    """First weights differ: one training alone says little."""
    defences = [Hash(bits=8, **settings), AbnormalCodes()]
    return [cl.train(easy_task(3, "server"), defences=defences, recipe=RECIPE, seed=seed) for seed in range(4)]


def flagged_of(runs):
    assert min(run.metrics["accuracy"] for run in runs) > 0.9
    return sum(run.to_json()["flagged"]["predict"] for run in runs) / len(runs)


def test_honest_rows_pass_and_opposite_codes_are_caught():
    """False alarms and detection on a task that every party can tell: the opposite code lies d bits away."""
    run, *_ = runs = easy_runs()
    rows = run.task.test
    assert flagged_of(runs) < 0.1
    opposite = -target_codes(3, 8, 0)[run.task.labels[rows]]
    before = {phase: list(seen) for phase, seen in run.session.label_party.flags.items()}
    _, odd = predict_with(run, rows, {"p1": opposite})
    assert odd.double().mean() > 0.9
    assert run.session.label_party.flags[Phase.PREDICT] == before[Phase.PREDICT]  # a what-if leaves no mark


def test_private_target_codes_and_this_check_do_not_go_together():
    """Parties are pulled to different codes, so honest rows look odd."""
    assert flagged_of(easy_runs(targets="private")) > 0.5


def test_settings():
    with pytest.raises(cl.ConfigError):
        AbnormalCodes(distance=-1)
    for text in ("abnormal-codes", "abnormal-codes:distance=3.0"):
        assert parse(text, package, Defence, "defence").describe() == text
