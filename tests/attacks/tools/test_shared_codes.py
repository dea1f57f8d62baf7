"""Target codes follow from the public settings of a run, or from nothing that is public."""

from dataclasses import replace

import pytest
import torch

import cutlayer as cl
from cutlayer.attacks.tools.shared_codes import nearest_code, shared_codes
from cutlayer.blocks.codebook import target_codes
from cutlayer.defences import GaussianNoise, Hash, LabelDP
from tests.helpers.small_task import make_task
from tests.helpers.toy import world


def manifest(*defences):
    return replace(world(3).manifest, seed=5, defences=defences)


@pytest.mark.parametrize(
    ("defence", "expected"),
    [
        (Hash(bits=8), lambda: target_codes(3, 8, 5)),
        (Hash(), lambda: target_codes(3, 2, 5)),
        (Hash(bits=8, targets=7), lambda: target_codes(3, 8, 7)),
        (Hash(targets=7), lambda: target_codes(3, 2, 7)),
        (Hash(bits=8, targets="private"), lambda: None),
        (Hash(bits=8, consistency=False), lambda: None),
        (GaussianNoise(), lambda: None),
    ],
)
def test_what_everyone_knows_follows_from_the_defences(defence, expected):
    wanted, codes = expected(), shared_codes(manifest(LabelDP(), defence))
    assert codes is None if wanted is None else torch.equal(codes, wanted)
    assert shared_codes(manifest()) is None


def test_changed_codes_stay_with_their_owner():
    shared_codes(manifest(Hash(bits=8))).zero_()
    assert (shared_codes(manifest(Hash(bits=8))).abs() == 1).all() and (target_codes(3, 8, 5).abs() == 1).all()


def test_the_codes_of_a_run_are_those_that_its_manifest_gives():
    """The label party's penalty is zero exactly where a party sends the codes that the manifest implies."""
    run = cl.train(make_task(2, "p0"), defences=[Hash(bits=6)], recipe=cl.Recipe(epochs=1, batch_size=32), seed=4)
    public, label = run.manifest(), run.session.label_party
    codes = shared_codes(public)
    batch = cl.message.Batch(0, cl.Phase.TRAIN, run.task.train[:20])
    targets = run.task.labels[batch.rows]
    local = replace(label.local(cl.defence.Place.EMBEDDING, batch), labels=targets, peer="p1")
    assert label.penalties[0].penalty(codes[targets], local).item() == pytest.approx(0, abs=1e-6)
    assert label.penalties[0].penalty(-codes[targets], local).item() == pytest.approx(2)


def test_the_nearest_code_names_the_class():
    received = torch.tensor([[1.0, 1, 1, -1], [-1, -1, -1, -1], [1, 1, -1, -1]])
    codes = torch.tensor([[1.0, 1, 1, 1], [1, 1, -1, -1], [-1, -1, -1, 1]])
    assert nearest_code(received, codes).tolist() == [0, 2, 1]  # the first row is a tie
